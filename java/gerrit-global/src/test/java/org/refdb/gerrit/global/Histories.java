package org.refdb.gerrit.global;

import static org.refdb.gerrit.global.Nodes.id;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/**
 * Records what two nodes ask of three members of etcd and what they are told, for a checker. First come episodes in
 * which each planted fault shows, then clients at random beside members and links that fail.
 * scripts/tests/check-histories runs it.
 */
@SuppressWarnings("try")
final class Histories {
  private static final String PROJECT = "project";
  private static final int CLIENTS = 6;
  private static final int REFS = 3;

  /**
   * Attempts after which the whole run fails: a node with a planted fault may never be able to go on.
   */
  private static final int TRIES = 20;

  /** A node, and its links to the members. */
  private record Node(GlobalRefs refs, List<Proxy> links) {
    void all(Proxy.Mode mode) {
      links.forEach(link -> link.mode(mode));
    }
  }

  private final PrintWriter history;
  private final AtomicInteger values = new AtomicInteger();
  private final AtomicInteger clients = new AtomicInteger();
  private final long start = System.nanoTime();
  private volatile boolean isOver;

  private Histories(PrintWriter history) {
    this.history = history;
  }

  /** Takes the seconds of the part at random, 0 for none; its seed; and the file to write. */
  public static void main(String[] arguments) throws Exception {
    // Each line is flushed, so that the file has them all even if this program is stopped.
    try (PrintWriter history = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[2])), true)) {
      new Histories(history).run(Integer.parseInt(arguments[0]), Long.parseLong(arguments[1]));
    }
  }

  private void run(int seconds, long seed) throws Exception {
    List<EtcdServer> members = EtcdServer.startCluster(3);
    String prefix = Nodes.prefix();
    Node one = node(members, prefix);
    Node two = node(members, prefix);
    try {
      for (int i = 0; i < 3; i++) {
        requestDelayedPastItsQuestion(one, "refs/delayed" + i);
        outdated(one, two, "refs/outdated" + i);
        lost(one, two, "refs/lost" + i);
        leaseRunsOut(one, two, "refs/fenced" + i);
      }
      if (seconds > 0) {
        atRandom(List.of(one, two), members, seconds, new Random(seed));
      }
    } finally {
      isOver = true;
      for (Node node : List.of(one, two)) {
        node.refs().close();
        node.links().forEach(Proxy::close);
      }
      for (EtcdServer member : members) {
        member.signal("CONT");
        member.close();
      }
    }
  }

  private static Node node(List<EtcdServer> members, String prefix) throws IOException {
    List<Proxy> links = new ArrayList<>();
    for (EtcdServer member : members) {
      links.add(new Proxy(member.port()));
    }
    return new Node(Nodes.openHasty(links.stream().map(Proxy::url).toList(), prefix), links);
  }

  /** The node asks what became of an update while its request is still under way, and uses its mark again. */
  private void requestDelayedPastItsQuestion(Node one, String ref) throws Exception {
    int client = clients.incrementAndGet();
    String before = begin(one, client, ref);
    one.all(Proxy.Mode.HELD);
    put(one, client, ref, before, false);
    one.links().forEach(Proxy::hangUp);
    one.all(Proxy.Mode.OPEN);
    for (int i = 0; one.refs().slots().unresolvedCount() > 0; i++) {
      if (i == 100 * TRIES) {
        throw new IllegalStateException("it is not found out what became of " + ref);
      }
      Thread.sleep(20);
    }
    for (Proxy link : one.links()) {
      link.deliverHeld();
    }
    Thread.sleep(500);
    put(one, client, ref, readUntil(one, client, ref), false);
    readUntil(one, client, ref);
  }

  private void outdated(Node one, Node two, String ref) throws Exception {
    int client = clients.incrementAndGet();
    int other = clients.incrementAndGet();
    String before = begin(one, client, ref);
    put(one, client, ref, before, false);
    put(two, other, ref, before, false);
    readUntil(one, client, ref);
  }

  /** The request never arrives. */
  private void lost(Node one, Node two, String ref) throws Exception {
    int client = clients.incrementAndGet();
    String before = begin(one, client, ref);
    one.all(Proxy.Mode.CUT);
    put(one, client, ref, before, false);
    readUntil(two, client, ref);
    one.all(Proxy.Mode.OPEN);
    readUntil(one, client, ref);
  }

  /** A node that was cut off goes on with a lock that another has by now. */
  private void leaseRunsOut(Node one, Node two, String ref) throws Exception {
    int client = clients.incrementAndGet();
    int other = clients.incrementAndGet();
    String before = begin(one, client, ref);
    try (AutoCloseable first = lockUntil(one, client, ref)) {
      one.all(Proxy.Mode.CUT);
      try (AutoCloseable second = lockUntil(two, other, ref)) {
        one.all(Proxy.Mode.OPEN);
        readUntil(one, client, ref);
        put(one, client, ref, before, true);
        put(two, other, ref, before, true);
      }
    }
    readUntil(two, other, ref);
  }

  private void atRandom(List<Node> nodes, List<EtcdServer> members, int seconds, Random random) throws Exception {
    for (int i = 0; i < REFS; i++) {
      begin(nodes.getFirst(), clients.incrementAndGet(), "refs/random" + i);
    }
    try (ExecutorService threads = Executors.newCachedThreadPool()) {
      for (int i = 0; i < CLIENTS; i++) {
        Node node = nodes.get(i % nodes.size());
        int client = clients.incrementAndGet();
        Random own = new Random(random.nextLong());
        threads.submit(() -> client(node, client, own));
      }
      long end = System.nanoTime() + seconds * 1_000_000_000L;
      while (System.nanoTime() < end) {
        trouble(nodes, members, random);
        Thread.sleep(random.nextInt(500));
      }
      isOver = true;
    }
  }

  /** Makes a link or a member fail, or be slow, for some time. */
  private static void trouble(List<Node> nodes, List<EtcdServer> members, Random random) throws Exception {
    Node node = nodes.get(random.nextInt(nodes.size()));
    EtcdServer member = members.get(random.nextInt(members.size()));
    int millis = random.nextInt(1500);
    switch (random.nextInt(7)) {
      case 0 -> {
        member.signal("STOP");
        Thread.sleep(millis);
        member.signal("CONT");
      }
      case 1 -> {
        member.kill();
        Thread.sleep(millis);
        member.run();
      }
      case 2 -> {
        node.all(Proxy.Mode.CUT);
        // Sometimes this is longer than the node's lease lasts.
        Thread.sleep(3L * millis);
      }
      case 3 -> {
        node.all(Proxy.Mode.NO_ANSWERS);
        Thread.sleep(millis);
        node.links().forEach(Proxy::hangUp);
      }
      case 4 -> {
        node.all(Proxy.Mode.HELD);
        Thread.sleep(millis);
        node.links().forEach(Proxy::hangUp);
        node.all(Proxy.Mode.OPEN);
        Thread.sleep(random.nextInt(1500));
        for (Proxy link : node.links()) {
          link.deliverHeld();
        }
      }
      default -> {
        int delay = random.nextInt(30);
        node.links().forEach(link -> link.delay(delay));
        Thread.sleep(millis);
        node.links().forEach(link -> link.delay(0));
      }
    }
    node.all(Proxy.Mode.OPEN);
  }

  private void client(Node node, int client, Random random) {
    while (!isOver) {
      String ref = "refs/random" + random.nextInt(REFS);
      Optional<String> now = read(node, client, ref);
      if (now.isEmpty() || random.nextInt(3) == 0) {
        continue;
      }
      if (random.nextInt(3) > 0) {
        put(node, client, ref, now.get(), false);
      } else {
        try (AutoCloseable lock = lock(node, client, ref)) {
          Thread.sleep(random.nextInt(8) == 0 ? 2500 : 20);
          put(node, client, ref, now.get(), lock != null);
        } catch (Exception e) {
          // The lock was not got, or is released later.
        }
      }
    }
  }

  private void record(int client, String kind, String ref, long call, String result, String more) {
    long end = result.equals("unknown") ? -1 : System.nanoTime() - start;
    history.println(
        "{\"client\":%d,\"kind\":\"%s\",\"ref\":\"%s\",\"call\":%d,\"return\":%d,\"result\":\"%s\"%s}"
            .formatted(client, kind, ref, call, end, result, more));
  }

  private String begin(Node node, int client, String ref) throws InterruptedException {
    for (int i = 0; i < TRIES; i++) {
      put(node, client, ref, "", false);
      String now = readUntil(node, client, ref);
      if (!now.isEmpty()) {
        return now;
      }
    }
    throw new IllegalStateException("cannot begin " + ref);
  }

  /**
   * Puts a new value in place of {@code from}; empty means none. A put that fails, and certainly changed nothing, is
   * not recorded: no read may return its value.
   */
  private void put(Node node, int client, String ref, String from, boolean isLocked) {
    String to = id(values.incrementAndGet()).name();
    String more = ",\"from\":\"" + from + "\",\"to\":\"" + to + "\",\"locked\":" + isLocked;
    long call = System.nanoTime() - start;
    try {
      Expected expected = from.isEmpty() ? new Expected.Nothing() : new Expected.Is(from);
      boolean isDone = node.refs().compareAndPut(PROJECT, ref, expected, to, false);
      record(client, "put", ref, call, isDone ? "done" : "refused", more);
    } catch (GlobalRefException e) {
      if (e.getMessage().contains("not known")) {
        record(client, "put", ref, call, "unknown", more);
      }
    }
  }

  private Optional<String> read(Node node, int client, String ref) {
    long call = System.nanoTime() - start;
    try {
      String now = node.refs().read(PROJECT, ref).value().orElse("");
      record(client, "read", ref, call, "done", ",\"to\":\"" + now + "\"");
      return Optional.of(now);
    } catch (GlobalRefException e) {
      return Optional.empty();
    }
  }

  private String readUntil(Node node, int client, String ref) throws InterruptedException {
    Optional<String> now = read(node, client, ref);
    while (now.isEmpty()) {
      Thread.sleep(20);
      now = read(node, client, ref);
    }
    return now.get();
  }

  private AutoCloseable lock(Node node, int client, String ref) throws GlobalRefException {
    long call = System.nanoTime() - start;
    AutoCloseable lock = node.refs().lock(PROJECT, ref);
    record(client, "lock", ref, call, "done", "");
    return lock;
  }

  private AutoCloseable lockUntil(Node node, int client, String ref) throws InterruptedException {
    for (int i = 0; i < TRIES; i++) {
      try {
        return lock(node, client, ref);
      } catch (GlobalRefException e) {
        Thread.sleep(20);
      }
    }
    throw new IllegalStateException("cannot lock " + ref);
  }
}

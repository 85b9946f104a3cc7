package org.refdb.it;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import org.refdb.gerrit.global.Folders;
import org.refdb.gerrit.global.Proxy;
import org.refdb.it.History.Outcome;

/**
 * Two real Gerrits in native mode on three members of etcd. First come episodes in which planted faults would show, and
 * then clients at random beside trouble. In the end nothing that was acknowledged is lost, and all agree.
 */
final class TwoGerrits {
  private static final Duration TIMEOUT = Duration.ofSeconds(90);
  private static final String GIT = System.getProperty("refdb.git", "git");

  private final Path scratch;
  private final boolean hasOneFolder;
  private final Cluster etcd;
  private final History history;
  private final Pusher pusher;
  private final GlobalClients clients;
  private final GlobalNode one;
  private final GlobalNode two;
  private volatile boolean isOver;

  private TwoGerrits(Path scratch, boolean hasOneFolder, int slots, Path file) throws Exception {
    this.scratch = scratch;
    this.hasOneFolder = hasOneFolder;
    etcd = new Cluster();
    history = new History(file, hasOneFolder);
    pusher = new Pusher(scratch.resolve("clone"), GlobalClients.PROJECT);
    clients = new GlobalClients(etcd, pusher, history);
    one = new GlobalNode(scratch, "one", etcd, null, slots);
    two = new GlobalNode(scratch, "two", etcd, hasOneFolder ? scratch.resolve("one/git") : null, slots);
  }

  /**
   * Takes an empty folder, and {@code one-folder} or {@code own-folders}. Then come the seconds of the part at random,
   * 0 for none, and its seed. The last ones are the file to write, and classes with a fault to plant, if any.
   */
  public static void main(String[] arguments) throws Exception {
    Path scratch = Path.of(arguments[0]);
    long seconds = Long.parseLong(arguments[2]);
    TwoGerrits test = new TwoGerrits(scratch, arguments[1].equals("one-folder"), seconds == 0 ? 1 : 8, Path.of(arguments[4]));
    try {
      test.begin(arguments.length > 5 ? Path.of(arguments[5]) : null);
      test.episodes();
      if (seconds > 0) {
        test.atRandom(seconds, new Random(Long.parseLong(arguments[3])));
      }
    } catch (Throwable e) {
      e.printStackTrace();
      throw e;
    } finally {
      test.close();
    }
    System.exit(0);
  }

  static void await(String what, Callable<Boolean> isSo) throws Exception {
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (!isSo.call()) {
      if (System.nanoTime() > deadline) {
        throw new AssertionError(what + " did not come within " + TIMEOUT.toSeconds() + " s");
      }
      Thread.sleep(100);
    }
  }

  private void begin(Path planted) throws Exception {
    String root = pusher.commit("");
    Path clone = scratch.resolve("clone");
    Commands.run(clone, GIT, "--git-dir=" + clone, "update-ref", "refs/heads/master", root);
    Path repository = one.repository(GlobalClients.PROJECT);
    // One folder in reftables, two in files: both formats have their turn.
    Commands.run(
        scratch, GIT, "clone", "-q", "--bare", "--no-hardlinks", "--ref-format=" + (hasOneFolder ? "reftable" : "files"), clone.toString(),
        repository.toString());
    if (planted != null) {
      for (GlobalNode node : List.of(one, two)) {
        Path jar = node.server().site().resolve("plugins/refdb-global.jar");
        Commands.run(scratch, System.getProperty("java.home") + "/bin/jar", "--update", "--file", jar.toString(), "-C", planted.toString(), ".");
      }
    }
    one.start();
    allowAll();
    if (!hasOneFolder) {
      Path git = two.repository("x").getParent();
      Folders.delete(git);
      Commands.run(scratch, "cp", "-a", repository.getParent().toString(), git.toString());
    }
    two.start();
    for (String project : Mirror.PROJECTS) {
      ask("POST", "/projects/" + project + "/refdb-global~import", "{}");
    }
  }

  /**
   * Asks the first node until it succeeds: one that was just started may be too slow for the short times that are set.
   */
  private void ask(String method, String path, String body) throws Exception {
    await(method + " " + path, () -> one.rest().ask(method, path, body).status() / 100 == 2);
  }

  /** Allows pushes to rewind and delete, and makes each submit a fast-forward. */
  private void allowAll() throws Exception {
    JsonObject group = one.rest().get("/groups/Administrators").getAsJsonObject();
    String rules = "{\"rules\":{\"" + Rest.id(group.get("id").getAsString()) + "\":{\"action\":\"ALLOW\",\"force\":true}}}";
    String path = "/projects/" + GlobalClients.PROJECT;
    ask(
        "POST", path + "/access",
        "{\"add\":{\"refs/heads/*\":{\"permissions\":{\"push\":%s,\"delete\":%s,\"create\":%s}}}}".formatted(rules, rules, rules));
    ask("PUT", path + "/config", "{\"submit_type\":\"FAST_FORWARD_ONLY\"}");
  }

  private void episodes() throws Exception {
    int client = history.client();
    for (int i = 0; i < 2; i++) {
      requestDelayedPastItsQuestion(client, "refs/heads/delayed" + i, "refs/heads/after" + i);
      outdated(client, "refs/heads/outdated" + i);
      lost(client, "refs/heads/lost" + i);
    }
  }

  private String begin(int client, String ref) throws Exception {
    await("an update of " + ref, () -> clients.push(one, client, ref, clients.read(client, ref)).outcomes().getFirst() == Outcome.DONE);
    if (!hasOneFolder) {
      await("the fetch of " + ref, () -> Mirror.once(two, one));
    }
    return clients.read(client, ref);
  }

  private void awaitSettled() throws Exception {
    for (GlobalNode node : List.of(one, two)) {
      await("the end of each intent of " + node.repository(GlobalClients.PROJECT), () -> node.intents(GlobalClients.PROJECT).isEmpty());
    }
  }

  /** The node asks what became of an update while its request is still under way, and uses its mark again. */
  private void requestDelayedPastItsQuestion(int client, String ref, String other) throws Exception {
    String before = begin(client, ref);
    String otherBefore = begin(client, other);
    one.all(Proxy.Mode.HELD);
    clients.push(one, client, ref, before);
    one.links().forEach(Proxy::hangUp);
    one.all(Proxy.Mode.OPEN);
    awaitSettled();
    for (Proxy link : one.links()) {
      link.deliverHeld();
    }
    Thread.sleep(500);
    clients.push(one, client, other, otherBefore);
    clients.read(client, other);
    clients.read(client, ref);
  }

  /** Both nodes update a ref from the same value. */
  private void outdated(int client, String ref) throws Exception {
    String before = begin(client, ref);
    clients.push(one, client, ref, before);
    clients.push(two, client, ref, before);
    clients.read(client, ref);
  }

  /** The request never arrives. */
  private void lost(int client, String ref) throws Exception {
    String before = begin(client, ref);
    one.all(Proxy.Mode.CUT);
    clients.push(one, client, ref, before);
    clients.read(client, ref);
    one.all(Proxy.Mode.OPEN);
    awaitSettled();
    clients.read(client, ref);
  }

  private void atRandom(long seconds, Random random) throws Exception {
    List<GlobalNode> nodes = List.of(one, two);
    int client = history.client();
    Thread mirrors = Thread.ofPlatform().start(this::mirror);
    clients.start(nodes, random);
    new GlobalTrouble(etcd, nodes, random)
        .run(
            seconds,
            () -> {
              GlobalTrouble.full(etcd, nodes, clients, client);
              return null;
            });
    clients.stop();
    isOver = true;
    mirrors.join();
    check(client);
  }

  private void mirror() {
    while (!hasOneFolder && !isOver) {
      try {
        Mirror.once(one, two, false);
        Mirror.once(two, one, false);
        Thread.sleep(100);
      } catch (IOException | InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  private void check(int client) throws Exception {
    awaitSettled();
    for (int round = 0; round < 2; round++) {
      for (GlobalNode node : List.of(one, two)) {
        GlobalNode other = node == one ? two : one;
        await(node.name() + " agrees with etcd", () -> hasOneFolder ? isClean(node) : Mirror.once(node, other));
        for (String ref : GlobalClients.branches()) {
          clients.readOnDisk(node, client, ref);
          if (round == 0) {
            Pusher.Pushed pushed = clients.push(node, client, ref, clients.read(client, ref));
            require(pushed.outcomes().getFirst() == Outcome.DONE, node.name() + " does not go on: " + pushed);
          }
        }
      }
    }
    if (!hasOneFolder) {
      Mirror.patchSets(one, two);
      Mirror.patchSets(two, one);
    }
    Set<Integer> numbers = new HashSet<>();
    clients.changes().forEach(change -> require(numbers.add(change.number()), change + " has another's number"));
    for (GlobalNode node : List.of(one, two)) {
      nothingIsLost(node);
    }
    System.out.printf(
        "%d updates acknowledged, %d of unknown outcome, %d refused; %d changes%n", history.count(Outcome.DONE),
        history.count(Outcome.UNKNOWN), history.count(Outcome.NOTHING), numbers.size());
    require(history.count(Outcome.DONE) > 20 && !numbers.isEmpty(), "nearly nothing was done");
  }

  private static boolean isClean(GlobalNode node) {
    return Mirror.PROJECTS.stream().map(node::compared).allMatch(one -> one != null && one.get("clean").getAsBoolean());
  }

  private void nothingIsLost(GlobalNode node) throws IOException {
    Map<String, String> refs = Mirror.refs(node, GlobalClients.PROJECT);
    for (GlobalClients.Change change : clients.changes()) {
      String now = refs.get(change.ref());
      require(change.commit().equals(now), node.name() + " does not have " + change + " but " + now);
    }
    for (GlobalClients.Change change : clients.submitted()) {
      JsonObject now = node.rest().get("/changes/" + GlobalClients.PROJECT + "~" + change.number()).getAsJsonObject();
      require(now.get("status").getAsString().equals("MERGED"), node.name() + " does not have submitted " + change);
    }
    JsonObject found = node.rest().good("POST", "/projects/" + GlobalClients.PROJECT + "/refdb~verify", "{}").json().getAsJsonObject();
    require(found.get("clean").getAsBoolean(), found.toString());
    Mirror.check(node, GlobalClients.PROJECT);
  }

  private static void require(boolean isSo, String message) {
    if (!isSo) {
      throw new AssertionError(message);
    }
  }

  @SuppressWarnings("try") // they are closed, and not asked
  private void close() throws IOException {
    history.close();
    pusher.close();
    try (Cluster cluster = etcd;
        GlobalNode first = one;
        GlobalNode second = two) {
      first.all(Proxy.Mode.OPEN);
      second.all(Proxy.Mode.OPEN);
    }
  }
}

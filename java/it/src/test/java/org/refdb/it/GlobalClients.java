package org.refdb.it;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.refdb.it.History.Outcome;
import org.refdb.it.Pusher.Move;
import org.refdb.it.Pusher.Pushed;

/** Clients that push, submit, delete and create on both nodes, and note what they are told. */
final class GlobalClients {
  static final String PROJECT = "two";
  private static final int BRANCHES = 4;
  private static final int PER_NODE = 3;

  /** A change that a node said it has. */
  record Change(String node, int number, String commit) {
    String ref() {
      return "refs/changes/%02d/%d/1".formatted(number % 100, number);
    }
  }

  private final Cluster etcd;
  private final Pusher pusher;
  private final History history;
  private final ConcurrentLinkedQueue<Change> changes = new ConcurrentLinkedQueue<>();
  private final Map<Integer, Change> submitted = new ConcurrentHashMap<>();
  private final List<Thread> threads = new ArrayList<>();
  private final ConcurrentLinkedQueue<Throwable> broken = new ConcurrentLinkedQueue<>();
  private volatile boolean isOver;

  GlobalClients(Cluster etcd, Pusher pusher, History history) {
    this.etcd = etcd;
    this.pusher = pusher;
    this.history = history;
  }

  ConcurrentLinkedQueue<Change> changes() {
    return changes;
  }

  Iterable<Change> submitted() {
    return submitted.values();
  }

  static String branch(int number) {
    return "refs/heads/r" + number;
  }

  static List<String> branches() {
    return java.util.stream.IntStream.range(0, BRANCHES).mapToObj(GlobalClients::branch).toList();
  }

  void start(List<GlobalNode> nodes, Random random) {
    for (GlobalNode node : nodes) {
      for (int i = 0; i < PER_NODE; i++) {
        Random own = new Random(random.nextLong());
        int client = history.client();
        threads.add(Thread.ofPlatform().name("client-" + node.name() + i).start(() -> work(node, client, own)));
      }
    }
  }

  void stop() throws InterruptedException {
    isOver = true;
    for (Thread thread : threads) {
      thread.join();
    }
    if (!broken.isEmpty()) {
      throw new AssertionError("a client cannot go on", broken.peek());
    }
  }

  private void work(GlobalNode node, int client, Random random) {
    try {
      while (!isOver) {
        if (node.isUp()) {
          step(node, client, branch(random.nextInt(BRANCHES)), random);
        } else {
          Thread.sleep(100);
        }
      }
    } catch (IOException | InterruptedException | RuntimeException | Error e) {
      e.printStackTrace();
      broken.add(e);
    }
  }

  private void step(GlobalNode node, int client, String ref, Random random) throws IOException, InterruptedException {
    switch (random.nextInt(10)) {
      case 0 -> deleteBranch(node, client, ref);
      case 1 -> move(node, client, ref, read(client, ref), "");
      case 2, 3 -> submit(node, client, ref);
      case 4 -> both(node, client, ref, branch(random.nextInt(BRANCHES)));
      case 5, 6 -> readOnDisk(node, client, ref);
      default -> push(node, client, ref, read(client, ref));
    }
  }

  /** Returns a ref's value in etcd. */
  String read(int client, String ref) throws IOException, InterruptedException {
    String generation = etcd.value("refdb/p/" + PROJECT).split(" ")[0];
    long call = history.now();
    String value = etcd.value("refdb/v/" + generation + "/" + ref);
    String live = value.equals("0".repeat(40)) ? "" : value;
    history.read(client, ref, call, live);
    return live;
  }

  /** Pushes a new commit on top of {@code from}. */
  Pushed push(GlobalNode node, int client, String ref, String from) throws IOException {
    return move(node, client, ref, from, pusher.commit(from));
  }

  private Pushed move(GlobalNode node, int client, String ref, String from, String to) throws IOException {
    if (from.isEmpty() && to.isEmpty()) {
      return new Pushed(List.of(Outcome.NOTHING), "");
    }
    long call = history.now();
    Pushed pushed = pusher.push(node.server().url(), List.of(new Move(ref, from, to)));
    history.update(client, ref, call, pushed.outcomes().getFirst(), from, to);
    return pushed;
  }

  /** Updates two refs by one push. */
  private void both(GlobalNode node, int client, String one, String other) throws IOException, InterruptedException {
    if (one.equals(other)) {
      return;
    }
    List<Move> moves = new ArrayList<>();
    for (String ref : List.of(one, other)) {
      String from = read(client, ref);
      moves.add(new Move(ref, from, pusher.commit(from)));
    }
    long call = history.now();
    List<Outcome> outcomes = pusher.push(node.server().url(), moves).outcomes();
    for (int i = 0; i < moves.size(); i++) {
      history.update(client, moves.get(i).ref(), call, outcomes.get(i), moves.get(i).from(), moves.get(i).to());
    }
  }

  void readOnDisk(GlobalNode node, int client, String ref) {
    long call = history.now();
    try {
      Rest.Answer answer = node.rest().ask("GET", branchPath(ref), null);
      if (answer.status() == 404) {
        history.readOnDisk(client, ref, call, "");
      } else if (answer.status() == 200) {
        history.readOnDisk(client, ref, call, answer.json().getAsJsonObject().get("revision").getAsString());
      }
    } catch (IOException e) {
      // A read without an answer is not recorded.
    }
  }

  private static String branchPath(String ref) {
    return "/projects/" + PROJECT + "/branches/" + ref.substring("refs/heads/".length());
  }

  private void deleteBranch(GlobalNode node, int client, String ref) {
    long call = history.now();
    Outcome outcome;
    try {
      Rest.Answer answer = node.rest().ask("DELETE", branchPath(ref), null);
      outcome = outcome(answer);
    } catch (IOException e) {
      outcome = Outcome.UNKNOWN;
    }
    history.update(client, ref, call, outcome, History.ANY, "");
  }

  private static Outcome outcome(Rest.Answer answer) {
    if (answer.status() / 100 == 2) {
      return Outcome.DONE;
    }
    boolean isNothing = answer.status() == 404 || answer.body().contains("fast-forward") || Pusher.isSureOfNothing(answer.body());
    return isNothing ? Outcome.NOTHING : Outcome.UNKNOWN;
  }

  /** Submits a change. By the project's submit type the branch gets the change's own commit, or is not moved. */
  private void submit(GlobalNode node, int client, String ref) throws IOException, InterruptedException {
    String from = read(client, ref);
    if (from.isEmpty()) {
      return;
    }
    String commit = pusher.commit(from);
    int number = pusher.pushForReview(node.server().url(), ref, commit);
    if (number == 0) {
      return;
    }
    Change change = new Change(node.name(), number, commit);
    changes.add(change);
    String path = "/changes/" + PROJECT + "~" + number;
    Outcome outcome = Outcome.NOTHING;
    long call = history.now();
    try {
      Rest.Answer voted = node.rest().ask("POST", path + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
      if (voted.status() == 200) {
        call = history.now();
        outcome = Outcome.UNKNOWN;
        outcome = outcome(node.rest().ask("POST", path + "/submit", "{}"));
      }
    } catch (IOException e) {
      // The outcome stays as it was set before the request.
    }
    history.update(client, ref, call, outcome, History.ANY, commit);
    if (outcome == Outcome.DONE) {
      submitted.put(number, change);
    }
  }
}

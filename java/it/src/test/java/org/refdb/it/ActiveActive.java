package org.refdb.it;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.refdb.gerrit.global.EtcdServer;
import org.refdb.gerrit.global.Proxy;
import org.refdb.it.History.Outcome;
import org.refdb.it.Pusher.Move;
import org.refdb.it.Pusher.Pushed;

/**
 * Two active Gerrits with the real high-availability plugin on one folder of repositories. The plugin's
 * ValidationModule wraps refdb's repositories, and asks refdb-global.jar, which uses three members of etcd. The build
 * does not run this test, because the plugin is not published.
 *
 * <p>Arguments: the plugin's jar, the jar of global-refdb, an empty folder, seconds with trouble, the history to write.
 */
final class ActiveActive {
  private static final String PROJECT = "active";
  private static final List<String> PROJECTS = List.of("All-Projects", "All-Users", PROJECT);
  private static final String BRANCHES = "/projects/" + PROJECT + "/branches/";
  private static final int REFS = 3;
  private static final int PER_NODE = 2;
  private static final int ROUNDS = 10;

  private final Path scratch;
  private final Cluster etcd = new Cluster();
  private final History history;
  private final Pusher pusher;
  private final List<HaNode> nodes;
  private final List<List<Proxy>> links = List.of(new ArrayList<>(), new ArrayList<>());
  private volatile boolean isOver;

  private ActiveActive(Path scratch, Path file) throws Exception {
    this.scratch = scratch;
    history = new History(file, false);
    pusher = new Pusher(scratch.resolve("clone"), PROJECT);
    nodes =
        List.of(
            new HaNode("one", GerritServer.create(scratch.resolve("one"))), new HaNode("two", GerritServer.create(scratch.resolve("two"))));
  }

  @SuppressWarnings("try") // the variable exists only so that the cluster is closed
  public static void main(String[] arguments) throws Exception {
    ActiveActive test = new ActiveActive(Path.of(arguments[2]), Path.of(arguments[4]));
    for (int i = 0; i < 2; i++) {
      test.install(i, Path.of(arguments[0]), Path.of(arguments[1]));
    }
    try (GerritServer first = test.nodes.getFirst().server();
        GerritServer second = test.nodes.getLast().server();
        Cluster cluster = test.etcd) {
      test.begin();
      test.oneOfTwoWins();
      test.submits();
      test.withoutEtcd();
      test.withTrouble(Long.parseLong(arguments[3]));
      first.stop();
      second.stop();
      test.notBesideNativeMode();
    }
    System.exit(0);
  }

  /** Installs and configures a node as the documentation of the plugin and of refdb describes. */
  private void install(int number, Path plugin, Path library) throws IOException {
    HaNode node = nodes.get(number);
    Path site = node.server().site();
    for (EtcdServer member : etcd.members()) {
      links.get(number).add(new Proxy(member.port()));
    }
    HaNode.copy(plugin, site.resolve("plugins/high-availability.jar"));
    HaNode.copy(plugin, site.resolve("lib/high-availability.jar"));
    HaNode.copy(library, site.resolve("lib/global-refdb.jar"));
    Path config = site.resolve("etc/gerrit.config");
    Path git = nodes.getFirst().server().site().resolve("git");
    Files.writeString(
        config,
        Files.readString(config).replace("basePath = git", "basePath = " + git)
            + """
            [gerrit]
            	installDbModule = com.ericsson.gerrit.plugins.highavailability.ValidationModule
            	installModule = com.gerritforge.gerrit.globalrefdb.validation.LibModule
            [refdb "global"]
            	requestTimeout = 1 s
            	timeout = 4 s
            	lockTimeout = 4 s
            	lease = 6 s
            [retry]
            	timeout = 2 s
            """);
    node.configure(
        Files.createDirectories(scratch.resolve("shared")), nodes.get(1 - number), "[ref-database]\n\tenabled = true\n");
    String urls = links.get(number).stream().map(Proxy::url).collect(Collectors.joining(","));
    Commands.Output installed = node.server().installer("install", "--only", "refs", "--named", "--global", "etcd=" + urls);
    HaNode.require(installed.status() == 0, installed.text());
  }

  private void begin() throws Exception {
    for (HaNode node : nodes) {
      node.server().start();
      JsonObject plugins = node.rest().get("/plugins/").getAsJsonObject();
      HaNode.require(plugins.has("high-availability") && plugins.has("refdb-global"), node.name() + " has " + plugins.keySet());
    }
    HaNode one = nodes.getFirst();
    one.rest().good("PUT", "/projects/" + PROJECT, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
    allowAll(one);
    HaNode.awaiting(
        "the project's forwarded creation", () -> nodes.getLast().rest().ask("GET", "/projects/" + PROJECT, null).status() == 200);
    for (String project : PROJECTS) {
      one.rest().good("POST", "/projects/" + project + "/refdb-global~import", "{}");
    }
    HaNode.require(clean(nodes.getLast(), PROJECT), "disk and etcd differ after the import");
    HaNode.require(etcdsValue("refs/heads/master").equals(one.master(PROJECT)), "etcd has another master");
  }

  private static void allowAll(HaNode node) throws IOException {
    JsonObject group = node.rest().get("/groups/Administrators").getAsJsonObject();
    String rules = "{\"rules\":{\"" + Rest.id(group.get("id").getAsString()) + "\":{\"action\":\"ALLOW\",\"force\":true}}}";
    node.rest()
        .good(
            "POST", "/projects/" + PROJECT + "/access",
            "{\"add\":{\"refs/heads/*\":{\"permissions\":{\"push\":%s,\"delete\":%s,\"create\":%s}}}}".formatted(rules, rules, rules));
  }

  private String etcdsValue(String ref) throws IOException, InterruptedException {
    String generation = etcd.value("refdb/p/" + PROJECT).split(" ")[0];
    String value = etcd.value("refdb/v/" + generation + "/" + ref);
    return value.equals("0".repeat(40)) ? "" : value;
  }

  private static boolean clean(HaNode node, String project) {
    try {
      Rest.Answer answer = node.rest().ask("POST", "/projects/" + project + "/refdb-global~compare", "{}");
      return answer.status() == 200 && answer.json().getAsJsonObject().get("clean").getAsBoolean();
    } catch (IOException e) {
      return false;
    }
  }

  private String onDisk(HaNode node, String branch) throws IOException {
    Rest.Answer answer = node.rest().ask("GET", BRANCHES + branch, null);
    return answer.status() == 404 ? "" : answer.json().getAsJsonObject().get("revision").getAsString();
  }

  /** Pushes two commits on top of the same one, one to each node, at the same time. */
  private void oneOfTwoWins() throws Exception {
    int[] won = new int[2];
    String base = pusher.commit("");
    Pushed begun = push(0, "refs/heads/both", "", base);
    HaNode.require(begun.outcomes().getFirst() == Outcome.DONE, begun.said());
    for (int i = 0; i < ROUNDS; i++) {
      String from = base;
      List<String> next = List.of(pusher.commit(from), pusher.commit(from));
      Outcome[] outcomes = new Outcome[2];
      Parallel.run(2, node -> outcomes[node] = push(node, "refs/heads/both", from, next.get(node)).outcomes().getFirst());
      String now = etcdsValue("refs/heads/both");
      for (int node = 0; node < 2; node++) {
        HaNode.require(outcomes[node] != Outcome.DONE || now.equals(next.get(node)), "acknowledged, but etcd has " + now);
        String there = onDisk(nodes.get(node), "both");
        HaNode.require(there.equals(now), nodes.get(node).name() + " has " + there + ", and etcd has " + now);
        won[node] += outcomes[node] == Outcome.DONE ? 1 : 0;
      }
      base = now;
    }
    HaNode.require(won[0] + won[1] > ROUNDS / 2, "nearly nobody won");
    HaNode.require(nodes.getLast().rest().ask("DELETE", BRANCHES + "both", null).status() == 204, "a branch is not deleted");
    HaNode.require(etcdsValue("refs/heads/both").isEmpty() && onDisk(nodes.getFirst(), "both").isEmpty(), "it is not gone everywhere");
    System.out.printf("of two pushes at once one wins: %d rounds, node one won %d, node two %d%n", ROUNDS, won[0], won[1]);
  }

  private Pushed push(int node, String ref, String from, String to) throws IOException {
    return pusher.push(nodes.get(node).server().url(), List.of(new Move(ref, from, to)));
  }

  private void submits() throws Exception {
    for (int i = 0; i < 4; i++) {
      HaNode writer = nodes.get(i % 2);
      writer.submit(PROJECT, nodes.get(1 - i % 2), scratch.resolve("change-" + i), "active " + i);
      HaNode.require(etcdsValue("refs/heads/master").equals(writer.master(PROJECT)), "etcd has another master");
    }
    for (HaNode node : nodes) {
      for (String project : PROJECTS) {
        HaNode.require(clean(node, project), project + " differs from etcd on node " + node.name());
      }
      node.verify(PROJECT);
    }
    System.out.println("changes pushed on one node and voted for on the other are submitted; disk and etcd agree");
  }

  private void withoutEtcd() throws Exception {
    String before = pusher.commit("");
    HaNode.require(push(0, "refs/heads/away", "", before).outcomes().getFirst() == Outcome.DONE, "no push though etcd is there");
    allLinks(Proxy.Mode.CUT);
    for (int node = 0; node < 2; node++) {
      Pushed pushed = push(node, "refs/heads/away", before, pusher.commit(before));
      HaNode.require(pushed.outcomes().getFirst() != Outcome.DONE, "a push is taken without etcd");
      HaNode.require(onDisk(nodes.get(node), "away").equals(before), "the disk has what etcd has not");
    }
    allLinks(Proxy.Mode.OPEN);
    for (int node = 0; node < 2; node++) {
      int number = node;
      HaNode.awaiting("a push after etcd is back", () -> push(number, "refs/heads/back" + number, "", before).outcomes().getFirst() == Outcome.DONE);
    }
    System.out.println("without etcd both nodes refuse pushes and go on reading; with it they go on");
  }

  private void allLinks(Proxy.Mode mode) {
    links.forEach(some -> some.forEach(link -> link.mode(mode)));
  }

  /**
   * Runs clients of both nodes while the links of the nodes to etcd fail in turn. In the end disk and etcd agree,
   * without anyone's help.
   */
  private void withTrouble(long seconds) throws Exception {
    AtomicInteger done = new AtomicInteger();
    Thread clients =
        Thread.ofPlatform()
            .start(
                () -> {
                  try {
                    Parallel.run(2 * PER_NODE, thread -> work(thread % 2, done));
                  } catch (InterruptedException | RuntimeException e) {
                    e.printStackTrace();
                    System.exit(3);
                  }
                });
    long end = System.nanoTime() + seconds * 1_000_000_000;
    for (int i = 0; System.nanoTime() < end; i++) {
      List<Proxy> some = links.get(i % 2);
      some.forEach(link -> link.mode(Proxy.Mode.NO_ANSWERS));
      Thread.sleep(i % 3 == 0 ? 6000 : 500);
      some.forEach(Proxy::hangUp);
      some.forEach(link -> link.mode(Proxy.Mode.OPEN));
      Thread.sleep(1500);
    }
    isOver = true;
    clients.join();
    for (HaNode node : nodes) {
      HaNode.awaiting("the agreement of disk and etcd on node " + node.name(), () -> clean(node, PROJECT));
      int client = history.client();
      for (int i = 0; i < REFS; i++) {
        String ref = "refs/heads/r" + i;
        HaNode.awaiting("a push to " + ref, () -> step(nodes.indexOf(node), client, ref) == Outcome.DONE);
      }
      node.verify(PROJECT);
    }
    HaNode.require(done.get() > 10, "nearly nothing was done: " + done);
    System.out.printf(
        "beside links that fail: %d pushes acknowledged, %d of unknown outcome; disk and etcd agree in the end%n",
        history.count(Outcome.DONE), history.count(Outcome.UNKNOWN));
  }

  private void work(int node, AtomicInteger done) throws Exception {
    int client = history.client();
    for (int i = 0; !isOver; i++) {
      done.addAndGet(step(node, client, "refs/heads/r" + i % REFS) == Outcome.DONE ? 1 : 0);
    }
  }

  /** Pushes a new commit on top of what etcd has. */
  private Outcome step(int node, int client, String ref) throws IOException, InterruptedException {
    String from = read(client, ref);
    String to = pusher.commit(from);
    long call = history.now();
    Outcome outcome = push(node, ref, from, to).outcomes().getFirst();
    history.update(client, ref, call, outcome, from, to);
    return outcome;
  }

  private String read(int client, String ref) throws IOException, InterruptedException {
    long call = history.now();
    String value = etcdsValue(ref);
    history.read(client, ref, call, value);
    return value;
  }

  private void notBesideNativeMode() throws IOException {
    GerritServer server = nodes.getFirst().server();
    Files.writeString(server.site().resolve("etc/gerrit.config"), "[refdb]\n\tglobal = etcd\n", StandardOpenOption.APPEND);
    Commands.Output started = server.tryStart();
    HaNode.require(
        started.status() != 0 && started.text().contains("refdb.global = etcd lets refdb ask etcd itself")
            && started.text().contains("ValidationModule"),
        "native mode starts beside the other plugin's ValidationModule: " + started.text());
    System.out.println("native mode beside ValidationModule does not start, and says why");
  }
}

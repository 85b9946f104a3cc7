package org.refdb.it;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;

/**
 * Two Gerrits with the real high-availability plugin on one folder of repositories. Shows whether refdb's hints travel
 * through its forwarding of evictions. No test of the build, since the plugin is not published as an artifact.
 *
 * <p>Arguments: the plugin's jar, the jar of global-refdb that it needs in {@code lib}, an empty folder.
 *
 * <p>The nodes believe what they know for ten minutes ({@code refdb.trustMillis}), as no real node should. So a write of the
 * other node is seen at once only if its hint has arrived.
 */
final class HighAvailability {
  private static final String PROJECT = "shared";
  private static final int CHANGES = 6;
  private static final Duration SOON = Duration.ofSeconds(60);
  private static final Duration QUIET = Duration.ofSeconds(5);

  private HighAvailability() {}

  private record Node(String name, GerritServer server, Rest rest) {
    Node(String name, GerritServer server) {
      this(name, server, new Rest(server.url(), "admin", "secret"));
    }

    String master() throws IOException {
      return rest.get("/projects/" + PROJECT + "/branches/master").getAsJsonObject().get("revision").getAsString();
    }

    long refreshed() throws IOException {
      JsonObject stat = rest.get("/projects/" + PROJECT + "/refdb~stat").getAsJsonObject();
      return stat.get("refreshed").getAsLong();
    }

    void configure(Path shared, Node peer, boolean hints) throws IOException {
      Files.writeString(
          server.site().resolve("etc/high-availability.config"),
          """
          [main]
          	sharedDirectory = %s
          [peerInfo]
          	strategy = static
          [peerInfo "static"]
          	url = %s
          [http]
          	user = admin
          	password = secret
          [cache]
          	pattern = %s
          """
              .formatted(shared, peer.server.url(), hints ? "refdb_hints" : "nothing_of_the_kind"));
    }
  }

  public static void main(String[] arguments) throws Exception {
    Path plugin = Path.of(arguments[0]);
    Path library = Path.of(arguments[1]);
    Path scratch = Path.of(arguments[2]);
    Node one = new Node("one", GerritServer.create(scratch.resolve("one")));
    Node two = new Node("two", GerritServer.create(scratch.resolve("two")));
    Path config = two.server.site().resolve("etc/gerrit.config");
    Files.writeString(
        config, Files.readString(config).replace("basePath = git", "basePath = " + one.server.site().resolve("git")));
    for (Node node : List.of(one, two)) {
      Files.writeString(
          node.server.site().resolve("etc/jgit.config"),
          "[refdb]\n\ttrustMillis = 600000\n",
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
      Commands.Output installed = node.server.installer("install", "--only", "refs");
      require(installed.status() == 0, installed.text());
      copy(plugin, node.server.site().resolve("plugins/high-availability.jar"));
      copy(library, node.server.site().resolve("lib/global-refdb.jar"));
    }
    try (GerritServer first = one.server;
        GerritServer second = two.server) {
      start(scratch, one, two, false);
      one.rest.good("PUT", "/projects/" + PROJECT, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
      withoutHints(scratch, one, two);
      first.stop();
      second.stop();
      start(scratch, one, two, true);
      withHints(scratch, one, two);
      aloneAndTogetherAgain(scratch, one, two);
    }
  }

  private static void start(Path scratch, Node one, Node two, boolean hints) throws IOException {
    Path shared = Files.createDirectories(scratch.resolve("shared"));
    one.configure(shared, two, hints);
    two.configure(shared, one, hints);
    one.server.start();
    two.server.start();
    for (Node node : List.of(one, two)) {
      require(
          node.rest.get("/plugins/").getAsJsonObject().has("high-availability"), node.name + " has not loaded the plugin");
    }
  }

  /** Shows that what the other checks see is due to the hints. */
  private static void withoutHints(Path scratch, Node one, Node two) throws Exception {
    awaiting("the project's forwarded creation", () -> two.rest.ask("GET", "/projects/" + PROJECT, null).status() == 200);
    String before = two.master();
    submit(one, one, scratch.resolve("without"), "without hints");
    Thread.sleep(QUIET);
    require(!one.master().equals(before), "master has not moved");
    require(two.master().equals(before), "the other node looked at the disk without having been told to");
    require(two.refreshed() == 0, "a hint has arrived though none is forwarded");
    System.out.println("without cache.pattern: no hint arrives, and a node that believes for ten minutes is stale");
  }

  private static void withHints(Path scratch, Node one, Node two) throws Exception {
    one.master();
    two.master();
    long hints = 0;
    long nanos = 0;
    for (int i = 0; i < CHANGES; i++) {
      Node writer = i % 2 == 0 ? one : two;
      Node reader = i % 2 == 0 ? two : one;
      reader.master();
      long before = reader.refreshed();
      submit(writer, reader, scratch.resolve("hints-" + i), "with hints " + i);
      String master = writer.master();
      long began = System.nanoTime();
      awaiting("the hint of " + writer.name, () -> reader.master().equals(master));
      nanos += System.nanoTime() - began;
      hints += reader.refreshed() - before;
    }
    Thread.sleep(QUIET);
    long settled = one.refreshed() + two.refreshed();
    Thread.sleep(QUIET);
    require(one.refreshed() + two.refreshed() == settled, "hints go to and fro for ever");
    System.out.printf(
        "with cache.pattern: %d changes, submitted on one node, seen by the other %.0f ms later on average; %d hints%n",
        CHANGES, nanos / 1e6 / CHANGES, hints);
    verify(one);
    verify(two);
  }

  private static void aloneAndTogetherAgain(Path scratch, Node one, Node two) throws Exception {
    two.server.stop();
    submit(one, one, scratch.resolve("alone"), "while the peer is away");
    two.server.start();
    require(two.master().equals(one.master()), "the peer does not see what was done while it was away");
    String before = one.master();
    submit(two, two, scratch.resolve("again"), "after the peer is back");
    awaiting("the hint of the node that came back", () -> !one.master().equals(before));
    verify(one);
    verify(two);
    System.out.println("a node that was away sees what was done meanwhile, and is heard again");
  }

  /** Pushes on one node, votes on the other, submits on the first. */
  private static void submit(Node writer, Node voter, Path clone, String text) throws Exception {
    try (Author author = new Author(clone, writer.server.url(), PROJECT)) {
      Author.Change change = author.pushChange(text);
      String path = "/changes/" + PROJECT + "~" + change.number();
      awaiting("the forwarded index", () -> voter.rest.ask("GET", path, null).status() == 200);
      voter.rest.good("POST", path + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
      awaiting("the vote", () -> writer.rest.ask("POST", path + "/submit", "{}").status() == 200);
    }
  }

  private static void verify(Node node) throws IOException {
    JsonObject found = node.rest.good("POST", "/projects/" + PROJECT + "/refdb~verify", "{}").json().getAsJsonObject();
    require(found.get("clean").getAsBoolean(), found.toString());
  }

  private static void awaiting(String what, Callable<Boolean> isThere) throws Exception {
    long deadline = System.nanoTime() + SOON.toNanos();
    while (!isThere.call()) {
      require(System.nanoTime() < deadline, what + " did not come within " + SOON.toSeconds() + " s");
      Thread.sleep(20);
    }
  }

  private static void copy(Path from, Path to) throws IOException {
    Files.createDirectories(to.getParent());
    Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
  }

  private static void require(boolean isSo, String message) {
    if (!isSo) {
      throw new AssertionError(message);
    }
  }
}

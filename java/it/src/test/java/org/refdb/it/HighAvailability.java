package org.refdb.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;

/**
 * Two Gerrits with the real high-availability plugin on one folder of repositories. Shows whether refdb's hints travel
 * through its forwarding of evictions. No test of the build, since the plugin is not published as an artifact.
 *
 * <p>Arguments: the plugin's jar, the jar of global-refdb that it needs in {@code lib}, an empty folder.
 *
 * <p>The nodes believe what they know for ten minutes ({@code refdb.trustMillis}), as no real node should. So a write
 * of the other node is seen at once only if its hint has arrived.
 */
final class HighAvailability {
  private static final String PROJECT = "shared";
  private static final int CHANGES = 6;
  private static final Duration QUIET = Duration.ofSeconds(5);

  private HighAvailability() {}

  public static void main(String[] arguments) throws Exception {
    Path plugin = Path.of(arguments[0]);
    Path library = Path.of(arguments[1]);
    Path scratch = Path.of(arguments[2]);
    HaNode one = new HaNode("one", GerritServer.create(scratch.resolve("one")));
    HaNode two = new HaNode("two", GerritServer.create(scratch.resolve("two")));
    Path config = two.server().site().resolve("etc/gerrit.config");
    Files.writeString(
        config, Files.readString(config).replace("basePath = git", "basePath = " + one.server().site().resolve("git")));
    for (HaNode node : List.of(one, two)) {
      Files.writeString(
          node.server().site().resolve("etc/jgit.config"),
          "[refdb]\n\ttrustMillis = 600000\n",
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
      Commands.Output installed = node.server().installer("install", "--only", "refs");
      HaNode.require(installed.status() == 0, installed.text());
      HaNode.copy(plugin, node.server().site().resolve("plugins/high-availability.jar"));
      HaNode.copy(library, node.server().site().resolve("lib/global-refdb.jar"));
    }
    try (GerritServer first = one.server();
        GerritServer second = two.server()) {
      start(scratch, one, two, false);
      one.rest().good("PUT", "/projects/" + PROJECT, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
      withoutHints(scratch, one, two);
      first.stop();
      second.stop();
      start(scratch, one, two, true);
      withHints(scratch, one, two);
      aloneAndTogetherAgain(scratch, one, two);
    }
  }

  private static void start(Path scratch, HaNode one, HaNode two, boolean hints) throws IOException {
    Path shared = Files.createDirectories(scratch.resolve("shared"));
    String cache = "[cache]\n\tpattern = " + (hints ? "refdb_hints" : "nothing_of_the_kind") + "\n";
    one.configure(shared, two, cache);
    two.configure(shared, one, cache);
    one.server().start();
    two.server().start();
    for (HaNode node : List.of(one, two)) {
      HaNode.require(
          node.rest().get("/plugins/").getAsJsonObject().has("high-availability"), node.name() + " has not loaded the plugin");
    }
  }

  /** Shows that what the other checks see is due to the hints. */
  private static void withoutHints(Path scratch, HaNode one, HaNode two) throws Exception {
    HaNode.awaiting("the project's forwarded creation", () -> two.rest().ask("GET", "/projects/" + PROJECT, null).status() == 200);
    String before = two.master(PROJECT);
    one.submit(PROJECT, one, scratch.resolve("without"), "without hints");
    Thread.sleep(QUIET);
    HaNode.require(!one.master(PROJECT).equals(before), "master has not moved");
    HaNode.require(two.master(PROJECT).equals(before), "the other node looked at the disk without having been told to");
    HaNode.require(two.refreshed(PROJECT) == 0, "a hint has arrived though none is forwarded");
    System.out.println("without cache.pattern: no hint arrives, and a node that believes for ten minutes is stale");
  }

  private static void withHints(Path scratch, HaNode one, HaNode two) throws Exception {
    one.master(PROJECT);
    two.master(PROJECT);
    long hints = 0;
    long nanos = 0;
    for (int i = 0; i < CHANGES; i++) {
      HaNode writer = i % 2 == 0 ? one : two;
      HaNode reader = i % 2 == 0 ? two : one;
      reader.master(PROJECT);
      long before = reader.refreshed(PROJECT);
      writer.submit(PROJECT, reader, scratch.resolve("hints-" + i), "with hints " + i);
      String master = writer.master(PROJECT);
      long began = System.nanoTime();
      HaNode.awaiting("the hint of " + writer.name(), () -> reader.master(PROJECT).equals(master));
      nanos += System.nanoTime() - began;
      hints += reader.refreshed(PROJECT) - before;
    }
    Thread.sleep(QUIET);
    long settled = one.refreshed(PROJECT) + two.refreshed(PROJECT);
    Thread.sleep(QUIET);
    HaNode.require(one.refreshed(PROJECT) + two.refreshed(PROJECT) == settled, "hints go to and fro for ever");
    System.out.printf(
        "with cache.pattern: %d changes, submitted on one node, seen by the other %.0f ms later on average; %d hints%n",
        CHANGES, nanos / 1e6 / CHANGES, hints);
    one.verify(PROJECT);
    two.verify(PROJECT);
  }

  private static void aloneAndTogetherAgain(Path scratch, HaNode one, HaNode two) throws Exception {
    two.server().stop();
    one.submit(PROJECT, one, scratch.resolve("alone"), "while the peer is away");
    two.server().start();
    HaNode.require(two.master(PROJECT).equals(one.master(PROJECT)), "the peer does not see what was done while it was away");
    String before = one.master(PROJECT);
    two.submit(PROJECT, two, scratch.resolve("again"), "after the peer is back");
    HaNode.awaiting("the hint of the node that came back", () -> !one.master(PROJECT).equals(before));
    one.verify(PROJECT);
    two.verify(PROJECT);
    System.out.println("a node that was away sees what was done meanwhile, and is heard again");
  }
}

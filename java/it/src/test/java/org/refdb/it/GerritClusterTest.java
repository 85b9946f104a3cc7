package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestMethodOrder;
import org.refdb.gerrit.global.Folders;

/**
 * Two Gerrits on one folder of repositories, which exchange no messages, as if all hints between nodes were lost. First
 * only one of them has refdb. Then both have it, in two versions. Then only the other one has it.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class GerritClusterTest {
  private static final String PROJECT = "shared";
  private static final int PUSHES = 6;

  /** The settings of Gerrits that share a folder of repositories. */
  private static final String TRUST =
      """
      [core]
      	trustPackedRefsStat = after_open
      	trustLooseRefStat = after_open
      	trustTablesListStat = after_open
      """;

  private Path scratch;
  private Node one;
  private Node two;

  /** Changes that either Gerrit has acknowledged. None may ever be missing on either of them. */
  private final ConcurrentLinkedQueue<Author.Change> acknowledged = new ConcurrentLinkedQueue<>();

  /** A Gerrit and someone who works on it. */
  private record Node(GerritServer server, Rest rest) {
    Node(GerritServer server) {
      this(server, new Rest(server.url(), "admin", "secret"));
    }

    Author author(Path folder) throws Exception {
      return new Author(folder, server.url(), PROJECT);
    }

    boolean hasRefdb() throws IOException {
      return rest.ask("GET", "/config/server/refdb~stat", null).status() == 200;
    }

    void install(Path jar) throws IOException {
      Commands.Output installed = server.installer(jar, "install", "--only", "refs");
      assertEquals(0, installed.status(), installed.text());
    }
  }

  @BeforeAll
  void start() throws Exception {
    scratch = Files.createTempDirectory("refdb-cluster");
    GerritServer first = GerritServer.create(scratch.resolve("one"));
    GerritServer second = GerritServer.create(scratch.resolve("two"));
    Path config = second.site().resolve("etc/gerrit.config");
    Files.writeString(
        config, Files.readString(config).replace("basePath = git", "basePath = " + first.site().resolve("git")));
    for (GerritServer server : List.of(first, second)) {
      Files.writeString(
          server.site().resolve("etc/jgit.config"), TRUST, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
    one = new Node(first);
    two = new Node(second);
    one.install(GerritServer.JAR);
    one.server.start();
    two.server.start();
    one.rest.good("PUT", "/projects/" + PROJECT, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
  }

  @AfterAll
  void stop() throws IOException {
    one.server.close();
    two.server.close();
    Folders.delete(scratch);
  }

  @Test
  @Order(10)
  void aNodeWithRefdbAndOneWithoutSeeEachOthersChangesAtOnce() throws Exception {
    assertTrue(one.hasRefdb());
    assertFalse(two.hasRefdb());
    workInTurns("mixed");
  }

  @Test
  @Order(20)
  void nothingIsLostWhenBothWriteAndPackAtOnce() throws Exception {
    workAtOnce("mixed");
  }

  @Test
  @Order(30)
  void twoVersionsOfRefdbWorkBesideEachOther() throws Exception {
    Path other = scratch.resolve("other.jar");
    String version = OtherVersion.of(GerritServer.JAR, other);
    two.server.stop();
    two.install(other);
    two.server.start();
    assertTrue(two.server.log().contains("refdb " + version + " serves this site's refs"), version);
    assertTrue(one.hasRefdb() && two.hasRefdb());
    workInTurns("versions");
    workAtOnce("versions");
  }

  @Test
  @Order(40)
  void aPluginOfTheVersionBeforeIsRefusedByTheNewLibModule() throws Exception {
    Rest.Answer refused =
        two.rest.ask("PUT", "/plugins/refdb.jar", "{\"url\":\"" + plugin(one.server.site()).toUri() + "\"}");
    assertNotEquals(2, refused.status() / 100, refused.body());
    assertTrue(refused.body().contains("the refdb plugin is of version"), refused.body());
    // Refs do not depend on the plugin.
    workInTurns("without plugin");
  }

  @Test
  @Order(50)
  void oneNodeGoesBackAndTheOtherFollowsWithoutLoss() throws Exception {
    one.server.stop();
    Commands.Output said = one.server.installer(GerritServer.JAR, "uninstall");
    assertEquals(0, said.status(), said.text());
    one.server.start();
    two.server.stop();
    two.install(GerritServer.JAR); // back to the version before
    two.server.start();
    assertFalse(one.hasRefdb());
    assertTrue(two.hasRefdb());
    workInTurns("back");
    workAtOnce("back");
  }

  /** Each node sees the other's changes with its next question. */
  private void workInTurns(String phase) throws Exception {
    for (int turn = 0; turn < 4; turn++) {
      Node writes = turn % 2 == 0 ? one : two;
      Node reads = turn % 2 == 0 ? two : one;
      try (Author author = writes.author(scratch.resolve(phase + "-writer-" + turn));
          Author reader = reads.author(scratch.resolve(phase + "-reader-" + turn))) {
        Author.Change change = author.pushChange(phase + " " + turn);
        acknowledged.add(change);
        assertTrue(reader.advertised().contains(change.ref() + " " + change.commit().name()), phase + " " + turn);
        String path = "/changes/" + PROJECT + "~" + change.number();
        reads.rest.good("POST", path + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
        writes.rest.good("POST", path + "/submit", "{}");
        assertEquals("MERGED", reads.rest.get(path).getAsJsonObject().get("status").getAsString());
        assertEquals(git("rev-parse", "refs/heads/master"), reader.masterAdvertised());
        String branch = "/projects/" + PROJECT + "/branches/" + Rest.id(phase + "-" + turn).replace("+", "%20");
        if (!phase.contains(" ")) {
          writes.rest.good("PUT", branch, "{\"revision\":\"master\"}");
          assertEquals(
              git("rev-parse", "refs/heads/master"),
              reads.rest.get(branch).getAsJsonObject().get("revision").getAsString());
          reads.rest.good("DELETE", branch, null);
          assertEquals(404, writes.rest.ask("GET", branch, null).status());
        }
      }
    }
    assertNothingLost();
  }

  /** Both nodes take pushes, one collects garbage, git packs. */
  private void workAtOnce(String phase) throws Exception {
    TreeSet<String> failures = new TreeSet<>();
    List<Thread> threads = new ArrayList<>();
    for (Node node : List.of(one, two)) {
      for (int pusher = 0; pusher < 2; pusher++) {
        Path folder = scratch.resolve(phase + "-pusher-" + threads.size());
        threads.add(
            working(
                failures,
                () -> {
                  try (Author author = node.author(folder)) {
                    for (int i = 0; i < PUSHES; i++) {
                      acknowledged.add(author.pushChange(folder.getFileName() + " " + i));
                    }
                  }
                }));
      }
    }
    threads.add(
        working(
            failures,
            () -> {
              String gc = two.rest.good("POST", "/projects/" + PROJECT + "/gc", "{\"show_progress\":false}").body();
              if (!gc.contains("completed successfully")) {
                throw new IOException(gc);
              }
            }));
    threads.add(working(failures, () -> git("pack-refs", "--all", "--prune")));
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(new TreeSet<>(), failures);
    assertNothingLost();
  }

  private interface Work {
    void run() throws Exception;
  }

  private static Thread working(Set<String> failures, Work work) {
    return Thread.ofPlatform()
        .start(
            () -> {
              try {
                work.run();
              } catch (Exception | AssertionError e) {
                synchronized (failures) {
                  failures.add(e.toString());
                }
              }
            });
  }

  private void assertNothingLost() throws Exception {
    Set<String> onDisk = new HashSet<>(git("for-each-ref", "--format=%(refname) %(objectname)").lines().toList());
    Set<Integer> numbers = new HashSet<>();
    for (Node node : List.of(one, two)) {
      try (Author reader = node.author(Files.createTempDirectory(scratch, "reader"))) {
        Set<String> refs = new HashSet<>(reader.advertised());
        for (Author.Change change : acknowledged) {
          String line = change.ref() + " " + change.commit().name();
          assertTrue(onDisk.contains(line), "git does not see " + change);
          assertTrue(refs.contains(line), node.server.url() + " does not see " + change);
        }
      }
      if (node.hasRefdb()) {
        JsonObject found =
            node.rest.good("POST", "/projects/" + PROJECT + "/refdb~verify", "{}").json().getAsJsonObject();
        assertTrue(found.get("clean").getAsBoolean(), found.toString());
      }
    }
    acknowledged.forEach(change -> assertTrue(numbers.add(change.number()), "given out twice: " + change));
    git("fsck", "--connectivity-only");
  }

  private Path plugin(Path site) throws IOException {
    return Files.copy(
        site.resolve("plugins/refdb.jar"), scratch.resolve("plugin.jar"), StandardCopyOption.REPLACE_EXISTING);
  }

  private String git(String... arguments) throws IOException {
    List<String> command =
        new ArrayList<>(List.of("git", "--git-dir=" + one.server.site().resolve("git/" + PROJECT + ".git")));
    command.addAll(List.of(arguments));
    return Commands.run(scratch, command.toArray(String[]::new)).strip();
  }
}

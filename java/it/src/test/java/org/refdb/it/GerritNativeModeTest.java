package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestMethodOrder;
import org.refdb.gerrit.global.Folders;

/**
 * Native mode in a real Gerrit with a real etcd: etcd is stopped, refs move in it as if by another node, and Gerrit
 * is killed.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class GerritNativeModeTest {
  private static final String PROJECT = "native";
  private static final String BRANCHES = "/projects/" + PROJECT + "/branches/";

  private Path scratch;
  private Process etcd;
  private String url;
  private GerritServer server;
  private Rest rest;
  private Ssh ssh;

  @BeforeAll
  void start() throws Exception {
    scratch = Files.createTempDirectory("refdb-native");
    url = "http://localhost:" + GerritServer.freePort();
    String peer = "http://localhost:" + GerritServer.freePort();
    etcd =
        new ProcessBuilder(
                "etcd", "--data-dir", scratch.resolve("etcd").toString(), "--listen-client-urls", url, "--advertise-client-urls", url,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
                "--unsafe-no-fsync")
            .redirectErrorStream(true)
            .redirectOutput(scratch.resolve("etcd.log").toFile())
            .start();
    server = GerritServer.create(scratch.resolve("site"));
    // By default, Gerrit retries for 20 seconds an update that another node was quicker with.
    config("[refdb]\n\tglobal = etcd\n[retry]\n\ttimeout = 2 s\n");
    Commands.Output installed = server.installer("install", "--global", "etcd=" + url);
    assertEquals(0, installed.status(), installed.text());
    rest = new Rest(server.url(), "admin", "secret");
  }

  private void config(String text) throws IOException {
    Files.writeString(server.site().resolve("etc/gerrit.config"), text, StandardOpenOption.APPEND);
  }

  @AfterAll
  void stop() throws Exception {
    try {
      server.close();
    } finally {
      etcd.destroyForcibly().waitFor();
    }
    Folders.delete(scratch);
  }

  private void signal(String name) throws IOException {
    Commands.run(scratch, "kill", "-" + name, Long.toString(etcd.pid()));
  }

  private String etcdctl(String... words) throws IOException {
    return Commands.run(
        scratch, Stream.concat(Stream.of("env", "ETCDCTL_API=3", "etcdctl", "--endpoints", url), Stream.of(words)).toArray(String[]::new));
  }

  private String key(String ref) throws IOException {
    String generation = etcdctl("get", "--print-value-only", "refdb/p/" + PROJECT).strip().split(" ")[0];
    return "refdb/v/" + generation + "/" + ref;
  }

  private String there(String ref) throws IOException {
    return etcdctl("get", "--print-value-only", key(ref)).strip();
  }

  private String here(String branch) throws IOException {
    return rest.get(BRANCHES + branch).getAsJsonObject().get("revision").getAsString();
  }

  private Path repository() {
    return server.site().resolve("git/" + PROJECT + ".git");
  }

  private void isSameInBoth() throws Exception {
    String compared = ssh.run("refdb-global", "compare", PROJECT);
    assertTrue(compared.contains(" 0 differ") && !compared.startsWith("0 refs"), compared);
  }

  @Test
  @Order(10)
  void aModuleThatAsksBesidesStopsTheStart() throws Exception {
    Path file = server.site().resolve("etc/gerrit.config");
    String before = Files.readString(file);
    config("[gerrit]\n\tinstallDbModule = org.refdb.gerrit.refs.RefdbNamedDbModule\n");
    assertTrue(server.tryStart().status() != 0);
    assertTrue(server.log().contains("would ask a global-refdb besides"), server.log());
    Files.writeString(file, before);
    Commands.Output uninstalled = server.installer("uninstall");
    assertTrue(uninstalled.status() != 0 && uninstalled.text().contains("refdb.global is set"), uninstalled.text());
  }

  @Test
  @Order(20)
  void whatIsPushedSubmittedAndDeletedIsInEtcd() throws Exception {
    // It runs `init` in the server's process. Previously, the server then refused every update.
    server.start(Map.of("REFDB_GERRIT_DAEMON", "--init"));
    ssh = new Ssh(scratch, server, "admin", rest);
    rest.good("PUT", "/projects/" + PROJECT, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
    assertEquals(here("master"), there("refs/heads/master"));
    String first = here("master");
    try (Author author = new Author(scratch.resolve("clone"), server.url(), PROJECT)) {
      Author.Change change = author.pushChange("one");
      rest.good("POST", "/changes/" + change.number() + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
      rest.good("POST", "/changes/" + change.number() + "/submit", "{}");
    }
    assertFalse(here("master").equals(first));
    assertEquals(here("master"), there("refs/heads/master"));
    rest.good("PUT", BRANCHES + "gone", "{\"revision\":\"master\"}");
    assertEquals(here("master"), there("refs/heads/gone"));
    rest.good("DELETE", BRANCHES + "gone", null);
    assertEquals("0".repeat(40), there("refs/heads/gone"));
    isSameInBoth();
    assertTrue(Files.readString(repository().resolve("config")).contains("global = etcd"));
    assertEquals(List.of(), intents());
    rest.good("PUT", "/projects/All-Projects/description", "{\"description\":\"opened by init\"}");
    assertFalse(etcdctl("get", "--prefix", "--keys-only", "refdb/n/").contains("program-"), "the server's own name");
    assertTrue(ssh.run("refdb-global", "import", PROJECT).contains("imported"));
    assertTrue(metric("updates", "value") > 0, "native mode's updates are counted");
    assertTrue(metric("update_latency", "count") > 0, "and their times");
  }

  private long metric(String name, String field) throws IOException {
    return rest.get("/config/server/metrics/" + Rest.id("plugins/refdb-global/" + name)).getAsJsonObject().get(field).getAsLong();
  }

  /**
   * Returns the intents that are complete. The file of one that is being written ends with {@code .new}, and stays for
   * some minutes if the server is killed.
   */
  private List<String> intents() throws IOException {
    Path folder = repository().resolve("refdb-global");
    if (!Files.exists(folder)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(file -> file.getFileName().toString()).filter(name -> !name.endsWith(".new")).toList();
    }
  }

  @Test
  @Order(30)
  void withoutEtcdUpdatesAreRefusedAndReadsGoOn() throws Exception {
    String before = here("master");
    signal("STOP");
    try {
      Rest.Answer refused = rest.ask("PUT", BRANCHES + "away", "{\"revision\":\"master\"}");
      assertTrue(refused.status() >= 400, refused.toString());
      try (Author author = new Author(scratch.resolve("second"), server.url(), PROJECT)) {
        assertEquals(before, author.masterAdvertised());
        assertTrue(author.pushMasterTo("refs/heads/pushed") != RemoteRefUpdate.Status.OK);
      }
      assertEquals(before, here("master"));
      assertEquals(404, rest.ask("GET", BRANCHES + "away", null).status());
      assertEquals(404, rest.ask("GET", BRANCHES + "pushed", null).status());
    } finally {
      signal("CONT");
    }
    assertTrue(server.log().contains(url), "an error names etcd");
    awaitSettled();
    rest.good("PUT", BRANCHES + "back", "{\"revision\":\"master\"}");
    assertEquals(before, there("refs/heads/back"));
    isSameInBoth();
  }

  private void awaitSettled() throws Exception {
    for (int i = 0; i < 600 && !intents().isEmpty(); i++) {
      Thread.sleep(100);
    }
    assertEquals(List.of(), intents());
  }

  @Test
  @Order(40)
  void whatAnotherNodeMovedIsNotOverwritten() throws Exception {
    String value = there("refs/heads/back");
    String other = "1".repeat(40);
    etcdctl("put", key("refs/heads/back"), other);
    Rest.Answer refused = rest.ask("DELETE", BRANCHES + "back", null);
    assertTrue(refused.status() >= 400, refused.toString());
    assertEquals(value, here("back"));
    assertEquals(other, there("refs/heads/back"));
    assertTrue(server.log().contains("etcd has " + other + " for refs/heads/back of " + PROJECT), "the log names both");
    assertTrue(ssh.run("refdb-global", "repair", PROJECT, "--to", "disk").contains("1 refs repaired"));
    assertTrue(ssh.run("refdb-global", "repair", PROJECT, "--intents").contains("0 updates settled, 0 under way, 0 not"));
    rest.good("DELETE", BRANCHES + "back", null);
    isSameInBoth();
  }

  @Test
  @Order(50)
  void whatAKilledServerLeavesIsSettledByTheNextOne() throws Exception {
    signal("STOP");
    CompletableFuture<Rest.Answer> update =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return rest.ask("PUT", BRANCHES + "killed", "{\"revision\":\"master\"}");
              } catch (IOException e) {
                return null;
              }
            });
    for (int i = 0; i < 6000 && intents().isEmpty() && !update.isDone(); i++) {
      Thread.sleep(10);
    }
    assertEquals(1, intents().size(), "the intent is there while etcd is asked");
    server.kill();
    update.join();
    signal("CONT");
    server.start();
    rest.get("/projects/" + PROJECT + "/branches/");
    awaitSettled();
    isSameInBoth();
    rest.good("PUT", BRANCHES + "killed-2", "{\"revision\":\"master\"}");
    if (rest.ask("GET", BRANCHES + "killed", null).status() == 200) {
      rest.good("DELETE", BRANCHES + "killed", null);
    }
    rest.good("PUT", BRANCHES + "killed", "{\"revision\":\"master\"}");
    isSameInBoth();
  }
}

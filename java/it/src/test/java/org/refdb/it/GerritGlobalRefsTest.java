package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.refdb.gerrit.global.Folders;

/**
 * The plugin refdb-global.jar in a real Gerrit with a real etcd. It starts, and has its commands over SSH and REST. The
 * declarations of module global-refdb-api stand in for global-refdb, which is not published, and nothing wraps Gerrit's
 * repositories here.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
final class GerritGlobalRefsTest {
  private static final String PROJECT = "All-Projects";

  private Path scratch;
  private Process etcd;
  private GerritServer server;
  private Rest rest;
  private Ssh ssh;

  @BeforeAll
  void start() throws Exception {
    scratch = Files.createTempDirectory("refdb-gerrit");
    String url = startEtcd();
    server = GerritServer.create(scratch.resolve("site"));
    Commands.Output without = server.installer("install", "--global", "etcd=" + url);
    assertEquals(1, without.status(), without.text());
    Files.createDirectories(server.site().resolve("lib"));
    Files.copy(Path.of(System.getProperty("refdb.global.api")), server.site().resolve("lib/global-refdb.jar"));
    Commands.Output installed = server.installer("install", "--global", "etcd=" + url);
    assertEquals(0, installed.status(), installed.text());
    server.start();
    rest = new Rest(server.url(), "admin", "secret");
    ssh = new Ssh(scratch, server, "admin", rest);
  }

  private String startEtcd() throws IOException {
    String url = "http://localhost:" + GerritServer.freePort();
    String peer = "http://localhost:" + GerritServer.freePort();
    etcd =
        new ProcessBuilder(
                "etcd", "--data-dir", scratch.resolve("etcd").toString(), "--listen-client-urls", url, "--advertise-client-urls", url,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
                "--unsafe-no-fsync")
            .redirectErrorStream(true)
            .redirectOutput(scratch.resolve("etcd.log").toFile())
            .start();
    return url;
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

  @Test
  void anAdministratorImportsComparesRepairsAndLooks() throws Exception {
    assertTrue(ssh.run("refdb-global", "status").contains("leader"));
    JsonObject status = rest.get("/config/server/refdb-global~status").getAsJsonObject();
    assertTrue(status.getAsJsonArray("members").get(0).getAsJsonObject().get("quota").getAsLong() > 0, status.toString());

    Commands.Output early = ssh.attempt("refdb-global", "compare", PROJECT);
    assertTrue(early.status() != 0 && early.text().contains("neither updated nor imported"), early.text());
    String imported = ssh.run("refdb-global", "import", "--all");
    assertTrue(imported.contains(PROJECT + ": imported") && imported.contains("All-Users: imported"), imported);
    assertTrue(ssh.run("refdb-global", "import", PROJECT).contains("imported already"));
    String clean = ssh.run("refdb-global", "compare", PROJECT);
    assertTrue(clean.contains(" 0 differ") && !clean.startsWith("0 refs"), clean);

    branchBesideGerrit("refs/heads/by-git");
    Commands.Output differs = ssh.attempt("refdb-global", "compare", PROJECT);
    assertTrue(differs.status() != 0 && differs.text().contains("refs/heads/by-git: here "), differs.text());
    JsonObject compared = rest.good("POST", "/projects/" + PROJECT + "/refdb-global~compare", "{}").json().getAsJsonObject();
    assertEquals("ONLY_ON_DISK", compared.getAsJsonArray("differences").get(0).getAsJsonObject().get("kind").getAsString());
    assertTrue(ssh.run("refdb-global", "repair", PROJECT, "--to", "disk", "--dry-run").contains("1 refs would be repaired"));
    assertTrue(ssh.run("refdb-global", "repair", PROJECT, "--to", "disk").contains("1 refs repaired"));
    ssh.run("refdb-global", "compare", PROJECT);

    branchBesideGerrit("refs/heads/wrong");
    String body = "{\"to\": \"etcd\", \"refs\": [\"refs/heads/wrong\"]}";
    JsonObject repaired = rest.good("POST", "/projects/" + PROJECT + "/refdb-global~repair", body).json().getAsJsonObject();
    assertEquals(1, repaired.get("repaired").getAsLong(), repaired.toString());
    assertFalse(Files.exists(folder().resolve("refs/heads/wrong")));
    assertEquals(400, rest.ask("POST", "/projects/" + PROJECT + "/refdb-global~repair", "{}").status());
    ssh.run("refdb-global", "compare", PROJECT);
    assertTrue(ssh.attempt("refdb-global", "repair", PROJECT).text().contains("--to etcd or --to disk"));
    assertTrue(ssh.attempt("refdb-global", "compare", "nowhere").text().contains("there is no project nowhere"));
    assertEquals(List.of(), Monitoring.missing(Monitoring.named(true), rest.get("/config/server/metrics/").getAsJsonObject().keySet()));
    assertFalse(server.log().contains("NoSuchMethodError") || server.log().contains("NoClassDefFoundError"), server.log());
  }

  private Path folder() {
    return server.site().resolve("git/" + PROJECT + ".git");
  }

  /** Creates a branch without asking etcd, as git does. */
  private void branchBesideGerrit(String name) throws IOException {
    try (Repository repository = new FileRepository(folder().toFile())) {
      RefUpdate update = repository.updateRef(name);
      update.setNewObjectId(repository.resolve("refs/meta/config"));
      assertEquals(RefUpdate.Result.NEW, update.update());
    }
  }
}

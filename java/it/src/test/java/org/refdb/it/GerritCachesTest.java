package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestMethodOrder;
import org.refdb.gerrit.global.Folders;

/** A real Gerrit whose persistent caches are refdb's: restarts, kills, offline programs, plugins. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class GerritCachesTest {
  private static final String MODULES =
      """
      [gerrit]
      	installModule = org.refdb.gerrit.cache.RefdbCacheModule
      	installBatchModule = org.refdb.gerrit.cache.RefdbBatchCacheModule
      [cache]
      	directory = cache
      """;

  private Path scratch;
  private GerritServer server;
  private Rest rest;

  /** Logged in before the first restart. */
  private Browser early;

  @BeforeAll
  void start() throws Exception {
    scratch = Files.createTempDirectory("refdb-caches");
    server = GerritServer.create(scratch.resolve("site"));
    Commands.Output installed = server.installer("install");
    assertEquals(0, installed.status(), installed.text());
    Path config = server.site().resolve("etc/gerrit.config");
    if (!Files.readString(config).contains("RefdbCacheModule")) {
      Files.writeString(config, MODULES, StandardOpenOption.APPEND);
    }
    Files.writeString(config, "[cache \"change_notes\"]\n\tdiskLimit = 1g\n", StandardOpenOption.APPEND);
    CachedPlugin.write(server.site().resolve("plugins/cached.jar"));
    server.start();
    rest = new Rest(server.url(), "admin", "secret");
  }

  @AfterAll
  void stop() throws IOException {
    // After the reload of a plugin, a regular stop takes minutes: Gerrit waits to look for the old plugin's classes.
    server.kill();
    Folders.delete(scratch);
  }

  private Path caches() {
    return server.site().resolve("cache/refdb");
  }

  private List<Path> h2Files() throws IOException {
    try (Stream<Path> files = Files.list(server.site().resolve("cache"))) {
      return files.filter(file -> file.toString().endsWith("-v2.mv.db")).toList();
    }
  }

  /** The clients of bench/bench-gerrit-caches, at a small size. */
  @Test
  @Order(1)
  void afterARestartChangesComeFromTheDisk() throws Exception {
    ChangeMaker.main(new String[] {server.url(), "4", "2"});
    assertEquals(4, DetailReader.readAll(server.url(), 4, 2).requests());
    early = new Browser(server.url()).login();
    server.stop();
    server.start();
    DetailReader.Result warm = DetailReader.readAll(server.url(), 4, 2);
    assertEquals(100, warm.foundOnDisk(), "percent of the change notes");
    assertTrue(warm.p50() > 0 && warm.p50() <= warm.p95() && warm.p95() <= warm.p99(), warm.toString());
  }

  @Test
  @Order(2)
  void aLoginSurvivesARestart() throws Exception {
    assertTrue(early.isLoggedIn());
  }

  @Test
  @Order(10)
  void allPersistentCachesAreRefdbs() throws Exception {
    assertTrue(server.log().contains("Installed module org.refdb.gerrit.cache.RefdbCacheModule"), "not installed");
    for (String cache : List.of("web_sessions", "accounts", "gerrit_file_diff", "git_tags", "cached.starts")) {
      assertTrue(Files.isDirectory(caches().resolve(cache)), cache);
    }
    assertEquals(List.of(), h2Files(), "H2 is still used");
  }

  @Test
  @Order(30)
  void aLogoutSurvivesKill9AndSoDoesALoginBesideIt() throws Exception {
    Browser leaves = new Browser(server.url()).login();
    Browser stays = new Browser(server.url()).login();
    leaves.logout();
    server.kill();
    Folders.delete(caches().resolve("change_kind"));
    Files.writeString(caches().resolve("change_kind"), "a cache without files, because this is no folder");
    server.start();
    assertFalse(leaves.isLoggedIn());
    assertTrue(stays.isLoggedIn());
  }

  @Test
  @Order(40)
  void showCachesKnowsBothTiers() throws Exception {
    rest.get("/accounts/self/detail");
    JsonObject accounts = rest.get("/config/server/caches/accounts").getAsJsonObject();
    assertEquals("DISK", accounts.get("type").getAsString(), accounts.toString());
    assertTrue(accounts.getAsJsonObject("entries").get("disk").getAsLong() > 0, accounts.toString());
  }

  @Test
  @Order(44)
  void administratorsLookAfterTheCachesOverSsh() throws Exception {
    Ssh admin = new Ssh(scratch, server, "admin", rest);
    String all = admin.run("refdb", "cache", "stat");
    for (String cache : List.of("web_sessions", "accounts", "cached.starts")) {
      assertTrue(all.contains(cache + ", version "), all);
    }
    assertTrue(admin.run("refdb", "cache", "stat", "accounts").contains("at half the limit"));
    assertTrue(admin.run("refdb", "cache", "verify").contains("accounts: "));
    assertTrue(admin.run("refdb", "cache", "compact", "change_notes").contains("change_notes: "));
    assertTrue(admin.run("refdb", "cache", "top", "cached.starts").contains(": starts"));
    String session = new Browser(server.url()).login().sessionKey();
    String sessions = admin.run("refdb", "cache", "top", "web_sessions", "--by", "USES", "-n", "1000");
    assertTrue(sessions.contains("(secret)") && !sessions.contains(session), sessions);
    String imported = admin.pipe("refdb cache export accounts", "refdb cache import accounts");
    assertTrue(imported.matches("(?s).*\\b0 entries imported, [1-9]\\d* kept as they were, 0 too large.*"), imported);
    assertTrue(admin.attempt("refdb", "cache", "export", "web_sessions").text().contains("holds secrets"));
    assertTrue(admin.attempt("refdb", "cache", "stat", "no_such_cache").status() != 0);
    assertTrue(admin.attempt("refdb", "cache", "top", "accounts", "-n", "0").status() != 0);
  }

  @Test
  @Order(45)
  void administratorsLookAfterTheCachesOverRest() throws Exception {
    rest.get("/accounts/self/detail");
    JsonObject stat = rest.get("/config/server/caches/accounts/refdb~stat").getAsJsonObject();
    assertTrue(stat.get("entries").getAsLong() > 0 && stat.get("limit_bytes").getAsLong() > 0, stat.toString());
    assertTrue(rest.get("/config/server/refdb~caches").getAsJsonArray().size() > 10);
    JsonObject verified = rest.good("POST", "/config/server/caches/accounts/refdb~verify", "{}").json().getAsJsonObject();
    assertEquals(0, verified.get("bad").getAsLong(), verified.toString());
    rest.good("POST", "/config/server/caches/accounts/refdb~compact", "{}");
    String top = rest.get("/config/server/caches/web_sessions/refdb~top?n=5&by=USES").toString();
    assertTrue(top.contains("(secret)"), top);
    byte[] export = rest.download("/config/server/caches/accounts/refdb~export");
    String imported = rest.upload("/config/server/caches/accounts/refdb~import", export).body();
    assertTrue(imported.contains("\"kept\"") && !imported.contains("\"kept\":0"), imported);
    assertEquals(400, rest.upload("/config/server/caches/accounts/refdb~import", new byte[100]).status());
    assertEquals(409, rest.ask("GET", "/config/server/caches/web_sessions/refdb~export", null).status());
    assertEquals(409, rest.ask("GET", "/config/server/caches/change_kind/refdb~export", null).status(), "no files");
    assertEquals(404, rest.ask("GET", "/config/server/caches/projects/refdb~stat", null).status(), "in memory only");
  }

  @Test
  @Order(46)
  void whoMayNotSeeCachesIsRefusedTheirTools() throws Exception {
    rest.good("PUT", "/accounts/nobody", "{\"http_password\":\"geheim\"}");
    Rest nobody = new Rest(server.url(), "nobody", "geheim");
    assertEquals(403, nobody.ask("GET", "/config/server/refdb~caches", null).status());
    Ssh ssh = new Ssh(scratch, server, "nobody", nobody);
    for (String command : List.of("stat", "verify", "compact", "top accounts", "export accounts", "import accounts")) {
      Commands.Output said = ssh.attempt("refdb cache " + command);
      assertTrue(said.status() != 0 && said.text().contains("not permitted"), command + ": " + said);
    }
  }

  @Test
  @Order(50)
  void aPluginWithACacheIsReloadedAndKeepsIt() throws Exception {
    String log = server.log();
    log = log.substring(log.lastIndexOf("\n--- ")); // a restart before the caches were deleted said the same
    assertTrue(log.contains("cached plugin: start 2"), "one restart since the caches were deleted");
    rest.good("POST", "/plugins/cached/gerrit~reload", "{}");
    assertTrue(server.log().contains("cached plugin: start 3"), "lost at the reload");
    rest.good("POST", "/plugins/cached/gerrit~reload", "{}");
    assertTrue(server.log().contains("cached plugin: start 4"), "closed by the old generation's end");
    assertFalse(server.log().contains("keeps its caches in memory only"), server.log());
    assertTrue(rest.get("/config/server/refdb~caches").toString().contains("cached.starts"), "the new generation's");
  }

  @Test
  @Order(60)
  void flushEmptiesTheDiskToo() throws Exception {
    rest.good("POST", "/config/server/caches/accounts/flush", null);
    JsonObject accounts = rest.get("/config/server/caches/accounts").getAsJsonObject();
    JsonObject entries = accounts.getAsJsonObject("entries");
    assertTrue(!entries.has("disk") || entries.get("disk").getAsLong() <= 1, accounts.toString());
  }

  @Test
  @Order(5)
  void anOfflineReindexFillsTheServersCaches() throws Exception {
    rest.good("PUT", "/projects/reindexed", "{\"create_empty_commit\":true}");
    rest.good(
        "POST", "/changes/", "{\"project\":\"reindexed\",\"branch\":\"master\",\"subject\":\"A change\"}");
    server.stop();
    Folders.delete(caches());
    server.offline("reindex");
    assertTrue(Files.isDirectory(caches().resolve("accounts")), "the reindex did not use the caches");
    assertEquals(List.of(), h2Files(), "the reindex used H2");
    server.start();
    JsonObject projects = rest.get("/config/server/caches/persisted_projects").getAsJsonObject();
    assertTrue(projects.getAsJsonObject("entries").get("disk").getAsLong() > 0, projects.toString());
  }
}

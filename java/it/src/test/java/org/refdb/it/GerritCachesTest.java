package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
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

  /** A browser that keeps its first session's cookie, also when the server says that it is over. */
  private final class Browser {
    private static final String COOKIE = "GerritAccount=";
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private String cookie = "none=none";

    int get(String path) throws Exception {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create(server.url() + path)).header("Cookie", cookie).build();
      HttpResponse<Void> response = client.send(request, HttpResponse.BodyHandlers.discarding());
      for (String set : response.headers().allValues("Set-Cookie")) {
        if (set.startsWith(COOKIE) && cookie.startsWith("none")) {
          cookie = set.substring(0, set.indexOf(';'));
        }
      }
      return response.statusCode();
    }

    Browser login() throws Exception {
      assertEquals(302, get("/login/?account_id=1000000"));
      assertTrue(isLoggedIn());
      return this;
    }

    boolean isLoggedIn() throws Exception {
      return get("/accounts/self/detail") == 200;
    }
  }

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
    CachedPlugin.write(server.site().resolve("plugins/cached.jar"));
    server.start();
    rest = new Rest(server.url(), "admin", "secret");
  }

  @AfterAll
  void stop() throws IOException {
    // Once a plugin was reloaded, Gerrit's end waits minutes for its turn to look for the old one's classes.
    server.kill();
    try (Stream<Path> files = Files.walk(scratch)) {
      for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
        Files.delete(file);
      }
    }
  }

  private Path caches() {
    return server.site().resolve("cache/refdb");
  }

  private List<Path> h2Files() throws IOException {
    try (Stream<Path> files = Files.list(server.site().resolve("cache"))) {
      return files.filter(file -> file.toString().endsWith("-v2.mv.db")).toList();
    }
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
  @Order(20)
  void aLoginSurvivesARestart() throws Exception {
    Browser browser = new Browser().login();
    server.stop();
    server.start();
    assertTrue(browser.isLoggedIn());
  }

  @Test
  @Order(30)
  void aLogoutSurvivesKill9AndSoDoesALoginBesideIt() throws Exception {
    Browser leaves = new Browser().login();
    Browser stays = new Browser().login();
    assertEquals(302, leaves.get("/logout"));
    server.kill();
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
  @Order(50)
  void aPluginWithACacheIsReloadedAndKeepsIt() throws Exception {
    assertTrue(server.log().contains("cached plugin: start 3"), "two restarts before this");
    rest.good("POST", "/plugins/cached/gerrit~reload", "{}");
    assertTrue(server.log().contains("cached plugin: start 4"), "lost at the reload");
    rest.good("POST", "/plugins/cached/gerrit~reload", "{}");
    assertTrue(server.log().contains("cached plugin: start 5"), "closed by the old generation's end");
    assertFalse(server.log().contains("keeps its caches in memory only"), server.log());
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
    delete(caches());
    server.offline("reindex");
    assertTrue(Files.isDirectory(caches().resolve("accounts")), "the reindex did not use the caches");
    assertEquals(List.of(), h2Files(), "the reindex used H2");
    server.start();
    JsonObject projects = rest.get("/config/server/caches/persisted_projects").getAsJsonObject();
    assertTrue(projects.getAsJsonObject("entries").get("disk").getAsLong() > 0, projects.toString());
  }

  private static void delete(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
        Files.delete(file);
      }
    }
  }
}

package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.Folders;

/** A real Gerrit's caches from its own H2 files to refdb and back, while it is stopped. */
final class GerritCacheMigrationTest {
  private Path scratch;
  private GerritServer server;

  @BeforeEach
  void newSite() throws IOException {
    scratch = Files.createTempDirectory("refdb-migration");
    server = GerritServer.create(scratch.resolve("site"));
    CachedPlugin.write(server.site().resolve("plugins/cached.jar"));
  }

  @AfterEach
  void stop() throws IOException {
    server.close();
    Folders.delete(scratch);
  }

  private String done(String command, String... options) throws IOException {
    Commands.Output said = server.installer(command, options);
    assertEquals(0, said.status(), said.text());
    return said.text();
  }

  private List<Path> cacheFiles(String ending) throws IOException {
    try (Stream<Path> files = Files.list(server.site().resolve("cache"))) {
      return files.filter(file -> file.toString().endsWith(ending)).sorted().toList();
    }
  }

  @Test
  void sessionsAndPluginsCachesGoToRefdbAndBackAndNoEndedSessionRevives() throws Exception {
    server.start();
    Browser leaves = new Browser(server.url()).login();
    Browser stays = new Browser(server.url()).login();
    server.stop();
    List<Path> h2 = cacheFiles("-v2.mv.db");
    assertTrue(h2.size() > 10, h2.toString());

    done("install", "--only", "caches");
    String planned = done("import-caches", "--dry-run");
    assertTrue(planned.contains("web_sessions, version 0: 2 entries"), planned);
    assertEquals(h2, cacheFiles("-v2.mv.db"));
    String imported = done("import-caches");
    assertEquals(planned.replace("would take", "took"), imported);
    assertEquals(List.of(), cacheFiles("-v2.mv.db"));

    server.start();
    assertFalse(server.log().contains("entries of cache"), "nothing is left to import");
    assertTrue(server.log().contains("cached plugin: start 2"), "the plugin's cache was imported");
    assertTrue(leaves.isLoggedIn() && stays.isLoggedIn());
    Rest rest = new Rest(server.url(), "admin", "secret");
    assertTrue(rest.get("/config/server/refdb~caches").toString().contains("web_sessions"), "without refs in refdb");
    Commands.Output refused = server.installer("export-caches");
    assertEquals(1, refused.status(), refused.text());
    assertTrue(refused.text().contains("Gerrit is running"), refused.text());
    leaves.logout();
    server.stop();

    String exported = done("export-caches");
    assertTrue(exported.contains("web_sessions, version 0: 1 entries"), exported);
    String left = "LEFT " + server.site().resolve("cache/refdb") + ", refdb's persistent caches, with the cookies of sessions";
    String said = done("uninstall");
    assertTrue(said.contains(left), said);
    server.start();
    assertFalse(leaves.isLoggedIn(), "the session that was ended");
    assertTrue(stays.isLoggedIn(), "the session that goes on");
    assertTrue(server.log().contains("cached plugin: start 3"), "the plugin's cache was exported");
    server.stop();

    assertFalse(cacheFiles("-before-refdb.mv.db").isEmpty());
    assertTrue(done("delete-old-caches").contains("freed "), "no bytes told");
    assertEquals(List.of(), cacheFiles("-before-refdb.mv.db"));
    done("wipe-caches");
    assertFalse(Files.exists(server.site().resolve("cache/refdb")));
    assertEquals(h2, cacheFiles("-v2.mv.db"), "H2's own are not touched");
  }
}

package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.refdb.gerrit.global.Folders;

/** A real Gerrit that shares its caches: what it finds after its own are deleted, and what it sends to the server. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
final class GerritSharedCacheTest {
  private static final int CHANGES = 4;

  /** The caches of Gerrit that are shared without being named. */
  private static final Set<String> SHARED =
      Set.of("change_notes", "accounts", "groups_byuuid_persisted", "persisted_projects", "groups_external_persisted");

  private final String loopback = InetAddress.getLoopbackAddress().getHostAddress();
  private Path scratch;
  private GerritServer server;
  private Rest rest;
  private int port;
  private Process redis;
  private Process monitor;

  @BeforeAll
  void start() throws Exception {
    scratch = Files.createTempDirectory("refdb-shared");
    port = GerritServer.freePort();
    redis = run("redis.log", "redis-server", "--port", "" + port, "--bind", loopback, "--save", "");
    while (!redisCli("PING").strip().equals("PONG")) {
      TimeUnit.MILLISECONDS.sleep(50);
    }
    monitor = run("monitor.log", "redis-cli", "-h", loopback, "-p", "" + port, "MONITOR");
    server = GerritServer.create(scratch.resolve("site"));
    assertEquals(0, server.installer("install").status());
    String settings =
        "[cache]\n\trefdbShared = redis://" + loopback + ":" + port
            + "\n\trefdbSharedDeadline = 500 ms\n\trefdbSharedBudget = 5 s\n";
    Files.writeString(server.site().resolve("etc/gerrit.config"), settings, StandardOpenOption.APPEND);
    server.start();
    rest = new Rest(server.url(), "admin", "secret");
  }

  private Process run(String log, String... command) throws IOException {
    return new ProcessBuilder(command)
        .directory(scratch.toFile())
        .redirectErrorStream(true)
        .redirectOutput(scratch.resolve(log).toFile())
        .start();
  }

  private String redisCli(String... command) throws IOException {
    String[] whole = new String[command.length + 5];
    System.arraycopy(new String[] {"redis-cli", "-h", loopback, "-p", "" + port}, 0, whole, 0, 5);
    System.arraycopy(command, 0, whole, 5, command.length);
    return Commands.attempt(scratch, whole).text();
  }

  @AfterAll
  void stop() throws IOException {
    server.kill();
    monitor.destroyForcibly();
    redis.destroyForcibly();
    Folders.delete(scratch);
  }

  private long count(String cache, String event) throws IOException {
    for (JsonElement each : rest.get("/config/server/refdb~caches").getAsJsonArray()) {
      JsonObject stat = each.getAsJsonObject();
      if (stat.get("name").getAsString().equals(cache)) {
        return stat.getAsJsonObject("shared").get(event).getAsLong();
      }
    }
    throw new AssertionError("no cache " + cache);
  }

  /** The caches of which the server has something. */
  private Set<String> cachesOnTheServer() throws IOException {
    Set<String> caches = new TreeSet<>();
    for (String name : redisCli("--raw", "KEYS", "*").strip().split("\n")) {
      String[] parts = name.split(":");
      assertEquals("refdb", parts[0]);
      if (!parts[2].equals("generation")) {
        caches.add(parts[2]);
      }
    }
    return caches;
  }

  @Test
  void aColdServerFindsWhatWasComputedAndNoSecretReachesTheSharedCache() throws Exception {
    ChangeMaker.main(new String[] {server.url(), "" + CHANGES, "2"});
    Browser browser = new Browser(server.url()).login();
    readAll();
    String session = browser.sessionKey();
    assertTrue(browser.isLoggedIn());
    rest.good("PUT", "/accounts/self/password.http", "{\"http_password\": \"a-password-of-mine\"}");
    for (int tries = 0; count("change_notes", "stored") < CHANGES; tries++) {
      assertTrue(tries < 100, "nothing is stored");
      TimeUnit.MILLISECONDS.sleep(100);
    }
    assertTrue(cachesOnTheServer().contains("change_notes"));
    assertTrue(SHARED.containsAll(cachesOnTheServer()), "" + cachesOnTheServer());

    server.stop();
    Folders.delete(server.site().resolve("cache"));
    server.start();
    rest = new Rest(server.url(), "admin", "a-password-of-mine");
    readAll();
    long found = count("change_notes", "hits");
    assertTrue(found >= CHANGES, found + " of the change notes were found");
    assertEquals(0, count("change_notes", "refused_bad") + count("change_notes", "refused_content"));
    assertTrue(count("persisted_projects", "hits") > 0);

    JsonObject status = rest.get("/config/server/refdb~shared-cache").getAsJsonObject();
    assertTrue(status.get("in_use").getAsBoolean(), status.toString());
    rest.good("POST", "/config/server/refdb~warm-caches", "{\"from\": \"shared\", \"rate\": 10000}");
    JsonObject copy = rest.get("/config/server/refdb~warm-caches").getAsJsonObject();
    for (int i = 0; i < 100 && copy.get("state").getAsString().equals("RUNNING"); i++) {
      Thread.sleep(100);
      copy = rest.get("/config/server/refdb~warm-caches").getAsJsonObject();
    }
    assertEquals("DONE", copy.get("state").getAsString(), copy.toString());
    assertTrue(copy.get("stored").getAsLong() + copy.get("present").getAsLong() > 0, copy.toString());
    rest.good("POST", "/config/server/caches/change_notes/refdb~flush-shared", "{}");

    String sent = Files.readString(scratch.resolve("monitor.log"));
    assertTrue(sent.contains("\"SET\""), "nothing was recorded");
    for (String secret : new String[] {"bcrypt", "argon2", session, "a-password-of-mine", "web_sessions"}) {
      assertFalse(sent.contains(secret), secret + " reached the server");
    }
  }

  private void readAll() throws Exception {
    DetailReader reader = DetailReader.loggedIn(server.url());
    for (int change = 1; change <= CHANGES; change++) {
      reader.detail(change);
    }
  }
}

package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A site of a user of its own, installed by root and started by Gerrit's own gerrit.sh as that user. */
final class InstalledAsRootTest {
  private static final String USER = "refdb-it-" + ProcessHandle.current().pid();

  private Path scratch;
  private GerritServer server;
  private boolean hasUser;

  @BeforeEach
  void makeSiteOfAnotherUser() throws IOException {
    if (!Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0)) {
      String loud = "NOT RUN: InstalledAsRootTest makes a user, which needs root; run the tests as root once";
      System.err.println(loud);
      Assumptions.abort(loud);
    }
    scratch = Files.createTempDirectory("refdb-as-root");
    Files.setPosixFilePermissions(scratch, PosixFilePermissions.fromString("rwxr-xr-x"));
    Commands.run(scratch, "useradd", "--create-home", "--home-dir", scratch.resolve("home").toString(), USER);
    hasUser = true;
    server = GerritServer.create(scratch.resolve("site"));
    // Replaces the hard link to the file in root's cache, because the site's user shall own a file of its own.
    Path war = server.site().resolve("bin/gerrit.war");
    Files.move(war, scratch.resolve("war"));
    Files.copy(scratch.resolve("war"), war, StandardCopyOption.REPLACE_EXISTING);
    Commands.run(scratch, "git", "config", "-f", config().toString(), "container.user", USER);
    Commands.run(scratch, "git", "config", "-f", config().toString(), "container.startupTimeout", "280");
    for (String option : GerritServer.JVM) { // Gerrit's own script does not know them
      Commands.run(scratch, "git", "config", "-f", config().toString(), "--add", "container.javaOptions", option);
    }
    Commands.run(scratch, "chown", "-R", USER + ":" + USER, server.site().toString());
    // Some administrators do not let the server write its own configuration.
    Commands.run(scratch, "chown", "root", config().toString());
    Files.setPosixFilePermissions(config(), PosixFilePermissions.fromString("rw-r-----"));
  }

  @AfterEach
  void removeSiteAndUser() throws IOException {
    if (server != null) {
      gerrit("stop");
    }
    if (hasUser) {
      Commands.run(Path.of("/"), "userdel", "--force", USER);
    }
    if (scratch != null) {
      Commands.run(Path.of("/"), "rm", "-rf", scratch.toString());
    }
  }

  @Test
  void whatRootInstallsTheSitesUserRunsAndWhereItCannotEveryoneIsTold() throws Exception {
    Commands.Output installed = server.installer("install");
    assertEquals(0, installed.status(), installed.text());
    assertTrue(installed.text().contains("tried as Gerrit's user " + USER), installed.text());
    assertEquals(List.of("etc/gerrit.config"), ofOthers());
    assertEquals("root " + USER + " rw-r-----", ownership(config()));

    started();
    Rest rest = new Rest(server.url(), "admin", "secret");
    Ssh ssh = new Ssh(scratch, server, "admin", rest);
    Commands.Output good = server.installer("status");
    assertEquals(0, good.status(), good.text());
    assertTrue(good.text().contains("refs     in use by Gerrit") && good.text().contains("caches   in use by Gerrit"), good.text());
    assertEquals(200, rest.ask("GET", "/config/server/refdb~status", null).status());
    assertTrue(ssh.run("refdb", "status").contains("refs: in use"));
    awaitMetric(rest, 1);
    whatRootLeftBelowRefsIsNamedByGarbageCollection(rest);
    stopped();
    assertEquals(List.of("etc/gerrit.config"), ofOthers());
    Commands.Output exported = server.installer("export-caches");
    assertEquals(0, exported.status(), exported.text());
    assertEquals(List.of("etc/gerrit.config"), ofOthers(), "what root exported is the site's user's");

    // What an installation as root used to leave.
    Path library = server.site().resolve("data/refdb");
    Commands.run(scratch, "chown", "root:root", library.toString());
    Files.setPosixFilePermissions(library, PosixFilePermissions.fromString("rwxr-xr-x"));
    Commands.Output refused = server.installer("install");
    assertEquals(1, refused.status(), refused.text());
    assertTrue(refused.text().contains(library + ": user " + USER + " may not write there, the folder belongs to root"), refused.text());
    assertTrue(refused.text().contains("set refdb.nativeDirectory in gerrit.config to another folder"), refused.text());
    assertEquals(1, server.installer("status").status(), "Gerrit is stopped");

    started();
    Commands.Output bad = server.installer("status");
    assertEquals(1, bad.status(), bad.text());
    assertTrue(bad.text().contains("refs are configured and NOT IN USE by Gerrit"), bad.text());
    Rest.Answer unwell = rest.ask("GET", "/config/server/refdb~status", null);
    assertEquals(500, unwell.status(), unwell.body());
    assertTrue(unwell.body().contains("may not write there"), unwell.body());
    Commands.Output said = ssh.attempt("refdb", "status");
    assertNotEquals(0, said.status(), said.text());
    assertTrue(said.text().contains("refs: NOT IN USE") && said.text().contains("caches: NOT IN USE"), said.text());
    awaitMetric(rest, 0);

    Path other = Files.createDirectory(scratch.resolve("other"));
    Commands.run(scratch, "chown", USER, other.toString());
    Files.writeString(config(), "[refdb]\n\tnativeDirectory = " + other + "\n", StandardOpenOption.APPEND);
    Commands.Output again = server.installer("install");
    assertEquals(0, again.status(), again.text());
    Files.writeString(config(), "[container]\n\tuser = nobody-is-called-so\n", StandardOpenOption.APPEND);
    Commands.Output nobody = server.installer("install");
    assertEquals(1, nobody.status(), nobody.text());
    assertTrue(nobody.text().contains("there is no such user"), nobody.text());
  }

  /** Root's own git leaves what Gerrit's user may not read. */
  private void whatRootLeftBelowRefsIsNamedByGarbageCollection(Rest rest) throws IOException {
    rest.good("PUT", "/projects/demo", "{\"create_empty_commit\":true}");
    Path folder = Files.createDirectory(server.site().resolve("git/demo.git/refs/heads/of-root"));
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
    String said = rest.ask("POST", "/projects/demo/gc", "{\"show_progress\":false}").body();
    assertFalse(said.contains("completed successfully"), said);
    String log = server.log() + Files.readString(server.site().resolve("logs/gc_log"));
    assertTrue(log.lines().anyMatch(line -> line.contains("nothing is deleted") && line.contains(folder.toString())), log);
    assertTrue(Files.exists(server.site().resolve("git/demo.git/packed-refs")), "refs were packed all the same");
    Files.delete(folder);
  }

  private void started() throws IOException {
    Commands.Output said = gerrit("start");
    assertEquals(0, said.status(), said.text() + "\n" + server.log());
  }

  private void stopped() throws IOException {
    Commands.Output said = gerrit("stop");
    assertEquals(0, said.status(), said.text());
  }

  private Commands.Output gerrit(String verb) throws IOException {
    return Commands.attempt(scratch, server.site().resolve("bin/gerrit.sh").toString(), verb);
  }

  /** Gerrit asks for a figure again when its last answer is two seconds old. */
  private static void awaitMetric(Rest rest, int expected) throws Exception {
    for (int i = 0; i < 100 && metric(rest) != expected; i++) {
      Thread.sleep(100);
    }
    assertEquals(expected, metric(rest));
  }

  private static int metric(Rest rest) throws IOException {
    return rest.get("/config/server/metrics/" + Rest.id("plugins/refdb/in_use/refs")).getAsJsonObject().get("value").getAsInt();
  }

  private Path config() {
    return server.site().resolve("etc/gerrit.config");
  }

  /** Returns the files that do not belong to the site's user, except those that gerrit.sh makes as root. */
  private List<String> ofOthers() throws IOException {
    try (Stream<Path> files = Files.walk(server.site())) {
      return files
          .filter(file -> !ownership(file).startsWith(USER + " " + USER + " "))
          .map(file -> server.site().relativize(file).toString())
          .filter(name -> !name.startsWith("logs/gerrit."))
          .sorted()
          .toList();
    }
  }

  private static String ownership(Path file) {
    try {
      return Files.getAttribute(file, "posix:owner", LinkOption.NOFOLLOW_LINKS) + " "
          + Files.getAttribute(file, "posix:group", LinkOption.NOFOLLOW_LINKS) + " "
          + PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
    } catch (IOException e) {
      return e.toString();
    }
  }
}

package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The uninstaller says what stays behind. */
final class UninstallTest {
  @TempDir Path site;

  private String uninstall() throws Exception {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    try (PrintStream out = new PrintStream(said, true, StandardCharsets.UTF_8)) {
      new Installer(out).uninstall(site);
    }
    return said.toString(StandardCharsets.UTF_8);
  }

  @Test
  void cookiesOfSessionsThatStayBehindAreNamedAndHowTheyGo() throws Exception {
    Files.createDirectories(site.resolve("etc"));
    Files.writeString(site.resolve("etc/gerrit.config"), "[cache]\n\tdirectory = kept\n");
    assertEquals("refdb is not installed in " + site + "\n", uninstall(), "there is nothing to tell of");
    Path caches = Files.createDirectories(site.resolve("kept/refdb"));
    String said = uninstall();
    assertTrue(said.contains("LEFT " + caches + ", refdb's persistent caches, with the cookies of sessions"), said);
    assertTrue(said.contains("`wipe-caches SITE` deletes them"), said);
  }

  /** An installation that takes the refs from refdb does to them what an uninstallation does. */
  @Test
  void anInstallationWithoutTheRefsIsRefusedWhileABatchIsNotSettled() throws Exception {
    Files.createDirectories(site.resolve("etc"));
    Files.createDirectories(site.resolve("bin"));
    Path config = site.resolve("etc/gerrit.config");
    Files.writeString(config, "[gerrit]\n\tbasePath = git\n");
    War.write(site.resolve("bin/gerrit.war"), "3.13.1");
    Path repository = site.resolve("git/a.git");
    Files.createDirectories(repository.resolve("objects"));
    Files.writeString(repository.resolve("HEAD"), "ref: refs/heads/main\n");
    Files.writeString(Files.createDirectories(repository.resolve("refdb-batches")).resolve("0123"), "refdb batch 1");
    Installer installer = new Installer(new PrintStream(new ByteArrayOutputStream()));
    String text =
        assertThrows(
                InstallException.class,
                () -> installer.install(site, null, EnumSet.of(GerritModule.CACHES), null, false))
            .getMessage();
    assertTrue(text.contains("refdb -C " + repository + " refs settle"), text);
  }

  @Test
  void recordsOfBatchesThatCannotBeReadAreNamed() throws Exception {
    assumeFalse(Files.isReadable(Path.of("/proc/1/mem")), "root can read all");
    Files.createDirectories(site.resolve("etc"));
    GerritModule module = GerritModule.REFS_IN_SERVER;
    Files.writeString(
        site.resolve("etc/gerrit.config"),
        "[gerrit]\n\tbasePath = git\n\t" + module.key() + " = " + module.className() + "\n");
    Path repository = site.resolve("git/a.git");
    Files.createDirectories(repository.resolve("objects"));
    Files.writeString(repository.resolve("HEAD"), "ref: refs/heads/main\n");
    Path records = Files.createDirectories(repository.resolve("refdb-batches"));
    Files.setPosixFilePermissions(records, Set.of());
    try {
      String text = assertThrows(InstallException.class, this::uninstall).getMessage();
      assertTrue(text.startsWith("cannot read " + records), text);
    } finally {
      Files.setPosixFilePermissions(records, PosixFilePermissions.fromString("rwx------"));
    }
  }

  @Test
  void aBatchThatAKilledServerLeftIsSettledFirst() throws Exception {
    Files.createDirectories(site.resolve("etc"));
    Path config = site.resolve("etc/gerrit.config");
    GerritModule module = GerritModule.REFS_IN_SERVER;
    String before = "[gerrit]\n\tbasePath = git\n\t" + module.key() + " = " + module.className() + "\n";
    Files.writeString(config, before);
    Path repository = site.resolve("git/a/b.git");
    Files.createDirectories(repository.resolve("objects"));
    Files.writeString(repository.resolve("HEAD"), "ref: refs/heads/main\n");
    Path records = Files.createDirectories(repository.resolve("refdb-batches"));
    Path record = Files.writeString(records.resolve("0123456789abcdef"), "refdb batch 1");
    String text = assertThrows(InstallException.class, this::uninstall).getMessage();
    assertTrue(text.contains("refdb -C " + repository + " refs settle"), text);
    assertEquals(before, Files.readString(config), "nothing has changed");

    // The uninstaller also refuses if the repositories are elsewhere: all of them behind a symbolic link, or some by a
    // setting.
    Path elsewhere = Files.move(site.resolve("git"), site.resolve("elsewhere"));
    Files.createSymbolicLink(site.resolve("git"), elsewhere);
    text = assertThrows(InstallException.class, this::uninstall).getMessage();
    assertTrue(text.contains("refdb -C " + repository + " refs settle"), text);
    Files.delete(site.resolve("git"));
    Files.writeString(config, before + "[repository \"a/*\"]\n\tbasePath = " + elsewhere + "\n");
    text = assertThrows(InstallException.class, this::uninstall).getMessage();
    assertTrue(text.contains("refdb -C " + elsewhere.resolve("a/b.git") + " refs settle"), text);

    record = elsewhere.resolve("a/b.git/refdb-batches").resolve(record.getFileName());
    Files.move(record, record.resolveSibling("0123456789abcdef.new"));
    byte[] slot =
        Arrays.copyOf(
            "held by a batch of refdb, record 0123456789abcdef.slot\n"
                .getBytes(StandardCharsets.UTF_8),
            4096);
    Path free = Files.write(record.resolveSibling("0123456789abcdef.slot"), slot);
    slot[600] = 'x';
    Path used = Files.write(record.resolveSibling("1123456789abcdef.slot"), slot);
    text = assertThrows(InstallException.class, this::uninstall).getMessage();
    assertTrue(text.contains("refdb -C " + elsewhere.resolve("a/b.git") + " refs settle"), text);
    Files.delete(used);
    Path lock =
        Files.createLink(
            Files.createDirectories(elsewhere.resolve("a/b.git/refs/heads")).resolve("main.lock"),
            free);
    text = assertThrows(InstallException.class, this::uninstall).getMessage();
    assertTrue(
        text.contains("refdb -C " + elsewhere.resolve("a/b.git") + " refs settle"),
        "JGit would wait for the lock: " + text);
    Files.delete(lock);
    uninstall();
    assertFalse(
        Files.readString(config).contains("org.refdb"),
        "one that was not finished means nothing, nor a slot without one");
    assertTrue(Files.exists(free), "it harms nobody");
  }
}

package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CacheSettingsTest {
  @TempDir Path site;

  @BeforeEach
  void makeSite() throws IOException {
    Files.createDirectories(site.resolve("etc"));
    Files.createDirectories(site.resolve("cache"));
    config("[cache]\n\tdirectory = cache\n");
  }

  private void config(String text) throws IOException {
    Files.writeString(site.resolve("etc/gerrit.config"), text);
  }

  private CacheSettings settings() throws IOException, InstallException {
    return CacheSettings.of(Site.at(site));
  }

  @Test
  void limitsAreReadWithTheirUnits() throws Exception {
    config(
        "[cache]\n directory = cache\n[cache \"a\"]\n diskLimit = 2 g\n[cache \"b\"]\n DiskLimit=-1\n"
            + "[cache \"c\"]\n diskLimit = much\n");
    CacheSettings settings = settings();
    assertEquals(2L << 30, settings.of("a").diskLimit());
    assertEquals(-1, settings.of("b").diskLimit());
    assertThrows(IllegalArgumentException.class, () -> settings.of("c"));
    assertNull(settings.of("d").diskLimit());
    assertEquals(site.resolve("cache"), settings.directory());
  }

  @Test
  void keysComeFromSecureConfigFirst() throws Exception {
    byte[] key = new byte[32];
    byte[] old = new byte[32];
    old[0] = 1;
    config("[cache]\n directory = cache\n[cache \"web_sessions\"]\n encryptionKey = nonsense\n");
    Files.writeString(
        site.resolve("etc/secure.config"),
        "[cache \"web_sessions\"]\n encryptionKey = "
            + Base64.getEncoder().encodeToString(key)
            + "\n oldEncryptionKey = "
            + Base64.getEncoder().encodeToString(old)
            + "\n");
    assertArrayEquals(key, settings().of("web_sessions").encryption().current());
    assertArrayEquals(old, settings().of("web_sessions").encryption().old().getFirst());
    Files.delete(site.resolve("etc/secure.config"));
    assertThrows(IllegalArgumentException.class, () -> settings().of("web_sessions"));
  }

  @Test
  void secretsThatOnlyGerritCanAskForAreNotGuessed() throws Exception {
    config("[gerrit]\n secureStoreClass = a.Vault\n[cache]\n directory = cache\n");
    assertTrue(assertThrows(InstallException.class, this::settings).getMessage().contains("a.Vault"));
  }

  @Test
  void aSiteThatRunsIsRefusedAndAStaleProcessIdIsNot() throws Exception {
    Files.createDirectories(site.resolve("logs"));
    Path pid = site.resolve("logs/gerrit.pid");
    Files.writeString(pid, ProcessHandle.current().pid() + "\n");
    assertEquals(1, run("wipe-caches", site.toString()));
    Files.writeString(pid, "999999999\n");
    assertEquals(0, run("wipe-caches", site.toString(), "--dry-run"));
  }

  @Test
  void whatIsNotUnderstoodIsNotDone() throws IOException {
    assertEquals(2, run("wipe-caches"));
    assertEquals(2, run("import-caches", site.toString(), "--named"));
    assertEquals(2, run("delete-old-caches", site.toString(), "--war", "x"));
    assertEquals(2, run("install", site.toString(), "--dry-run"));
    config("[gerrit]\n");
    assertEquals(1, run("delete-old-caches", site.toString()), "no cache.directory");
  }

  private static int run(String... words) {
    PrintStream nowhere = new PrintStream(new ByteArrayOutputStream());
    return Main.run(List.of(words), nowhere, nowhere);
  }
}

package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The global ref database is installed where it can work, and taken out whole. */
final class GlobalRefsPluginTest {
  private static final String TWO = "https://a.example.com:2379,https://b.example.com:2379";

  @TempDir Path folder;
  private GlobalRefsPlugin plugin;
  private ConfigFile config;

  @BeforeEach
  void site() throws Exception {
    Files.createDirectories(folder.resolve("etc"));
    Files.createDirectories(folder.resolve("lib"));
    Files.writeString(folder.resolve("etc/gerrit.config"), "[refdb \"global\"]\n\tprefix = mine/\n");
    Site site = Site.at(folder);
    config = ConfigFile.read(site.config());
    plugin = new GlobalRefsPlugin(site, config);
  }

  @Test
  void addressesThatNoClientTakesAreRefused() throws Exception {
    Files.createFile(folder.resolve("lib/global-refdb.jar"));
    plugin.check(TWO);
    for (String wrong :
        new String[] {
          "",
          "a.example.com:2379",
          "https://a.example.com",
          "https://a.example.com:2379, https://b.example.com:2379",
          TWO + ","
        }) {
      assertTrue(
          assertThrows(InstallException.class, () -> plugin.check(wrong))
              .getMessage()
              .contains("SCHEME://HOST:PORT"),
          wrong);
    }
  }

  @Test
  void withoutTheModuleThatHasTheInterfaceNothingIsInstalled() {
    String said = assertThrows(InstallException.class, () -> plugin.check(TWO)).getMessage();
    assertTrue(said.contains("lib/global-refdb.jar"), said);
  }

  @Test
  void theAddressesComeAndGoAndAllElseStays() throws Exception {
    assertTrue(plugin.configure("http://old.example.com:2379"));
    assertTrue(plugin.configure(TWO));
    assertFalse(plugin.configure(TWO));
    assertEquals(java.util.List.of(TWO), config.values("refdb", "global", "etcd"));
    assertTrue(plugin.unconfigure());
    config.write();
    assertEquals("[refdb \"global\"]\n\tprefix = mine/\n", Files.readString(folder.resolve("etc/gerrit.config")));
  }
}

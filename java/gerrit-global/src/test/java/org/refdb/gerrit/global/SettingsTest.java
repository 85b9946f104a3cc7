package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;

/** What a node reads before it asks etcd. */
final class SettingsTest {
  @TempDir Path site;

  @Test
  void addressesWithoutAnAddressAreNoAddresses() {
    Config config = new Config();
    for (String none : new String[] {null, "", " ", ",", " , "}) {
      config.setString("refdb", "global", "etcd", none);
      String why = assertThrows(IllegalArgumentException.class, () -> Settings.of(config, site)).getMessage();
      assertTrue(why.contains("refdb.global.etcd is not set"), why);
    }
  }

  @Test
  void aNodeWhoseNameWasLostWithThePowerGetsAnotherOneThatStays() throws Exception {
    Files.createFile(site.resolve("node"));
    String name = NodeName.in(site).name();
    assertEquals(name, NodeName.in(site).name());
  }
}

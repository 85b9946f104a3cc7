package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class SmallBatchesTest {
  @TempDir Path folder;

  private Site site() throws Exception {
    Files.createDirectories(folder.resolve("etc"));
    Files.writeString(folder.resolve("etc/gerrit.config"), "[gerrit]\n");
    return Site.at(folder);
  }

  @Test
  void whatTheInstallerSetsItTakesBack() throws Exception {
    Site site = site();
    assertFalse(SmallBatches.turnOff(site), "there is no jgit.config");
    assertEquals(Optional.empty(), SmallBatches.of(site));
    String before = "[core]\n\ttrustFolderStat = false\n";
    Files.writeString(site.jgitConfig(), before);
    assertTrue(SmallBatches.turnOn(site));
    assertFalse(SmallBatches.turnOn(site), "it is on");
    assertEquals(Optional.of("auto"), SmallBatches.of(site));
    assertTrue(SmallBatches.turnOff(site));
    assertEquals(before + "[refdb]\n", Files.readString(site.jgitConfig()));
  }

  @Test
  void whatAnAdministratorHasDecidedStays() throws Exception {
    Site site = site();
    String theirs = "[refdb]\n\tsmallBatches = packed\n";
    Files.writeString(site.jgitConfig(), theirs);
    assertFalse(SmallBatches.turnOn(site));
    assertFalse(SmallBatches.turnOff(site));
    assertEquals(theirs, Files.readString(site.jgitConfig()));
  }
}

package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class SiteTest {
  @TempDir Path folder;

  @Test
  void theJarThatInstallsIsNotOneThatTheInstallationDeletes() throws Exception {
    Files.createDirectories(folder.resolve("etc"));
    Files.writeString(folder.resolve("etc/gerrit.config"), "");
    Path lib = Files.createDirectories(folder.resolve("lib"));
    Site site = Site.at(folder);
    Path elsewhere = Files.createFile(folder.resolve("refdb-gerrit-1.0.jar"));
    Path installed = Files.createFile(lib.resolve("refdb-gerrit.jar"));
    Path copy = Files.createFile(lib.resolve("refdb-gerrit-1.0.jar"));
    assertDoesNotThrow(() -> site.requireToKeep(elsewhere));
    assertDoesNotThrow(() -> site.requireToKeep(installed));
    String refusal = assertThrows(InstallException.class, () -> site.requireToKeep(copy)).getMessage();
    assertTrue(refusal.contains("move it out of there first"), refusal);
  }

  /** A killed server leaves its process id, which in a container another process may have soon. */
  @Test
  void anotherProcessThatHasTheNumberOfADeadServerIsNoServer() throws Exception {
    Files.createDirectories(folder.resolve("etc"));
    Files.createDirectories(folder.resolve("logs"));
    Files.writeString(folder.resolve("etc/gerrit.config"), "");
    Site site = Site.at(folder);
    for (String argument : new String[] {"sleep", "GerritCodeReview", folder + "/war"}) {
      Process process = new ProcessBuilder("sh", "-c", "sleep 600 & wait", argument).start();
      try {
        Files.writeString(site.pidFile(), process.pid() + "\n");
        boolean isServer = !argument.equals("sleep");
        assertEquals(isServer ? Optional.of(process.pid()) : Optional.empty(), site.runningServer(), argument);
      } finally {
        process.descendants().forEach(ProcessHandle::destroy);
        process.destroy();
        process.waitFor();
      }
    }
    assertEquals(Optional.empty(), site.runningServer());
  }
}

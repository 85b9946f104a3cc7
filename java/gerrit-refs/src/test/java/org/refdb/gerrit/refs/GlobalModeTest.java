package org.refdb.gerrit.refs;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.config.SitePaths;
import com.google.inject.ProvisionException;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.eclipse.jgit.errors.LockFailedException;
import org.eclipse.jgit.internal.storage.file.LockFile;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.jgit.NotAgreedException;

/** Native mode: when it is on, what it does not go with, and what happens where it cannot be loaded. */
final class GlobalModeTest {
  @TempDir Path folder;

  private static Config config(String text) throws Exception {
    Config config = new Config();
    config.fromText(text);
    return config;
  }

  @Test
  void withoutTheSettingNothingIsLoaded() throws Exception {
    // The plugin's own settings are there, and its jar is one that nothing can be loaded from.
    Config config = config("[refdb \"global\"]\n\tetcd = http://localhost:1\n");
    Files.createDirectories(folder.resolve("plugins"));
    Files.writeString(folder.resolve("plugins/refdb-global.jar"), "no jar");
    assertFalse(GlobalMode.isAskedFor(config));
    assertEquals(Optional.empty(), GlobalMode.load(config, new SitePaths(folder), true));
    assertThrows(ClassNotFoundException.class, () -> Class.forName("org.refdb.gerrit.global.NativeMode"));
  }

  @Test
  void itIsAskedForByOneWord() throws Exception {
    assertTrue(GlobalMode.isAskedFor(config("[refdb]\n\tglobal = etcd\n")));
    Config other = config("[refdb]\n\tglobal = zookeeper\n");
    assertTrue(
        assertThrows(ProvisionException.class, () -> GlobalMode.isAskedFor(other))
            .getMessage()
            .contains("zookeeper"));
  }

  @Test
  void whateverElseAsksOrDoesNotAskStopsTheStart() throws Exception {
    List<String> others =
        List.of(
            "[gerrit]\n\tinstallDbModule = com.ericsson.gerrit.plugins.highavailability.ValidationModule\n",
            "[gerrit]\n\tinstallDbModule = com.gerritforge.gerrit.globalrefdb.validation.LibModule\n",
            "[gerrit]\n\tinstallModule = com.googlesource.gerrit.plugins.multisite.Module\n",
            "[gerrit]\n\tinstallDbModule = " + RefdbNamedDbModule.class.getName() + "\n",
            "[refdb]\n\tshadow = *\n");
    for (String text : others) {
      Config config = config("[refdb]\n\tglobal = etcd\n" + text);
      assertThrows(ProvisionException.class, () -> GlobalMode.checkAlone(config, Settings.of(config)), text);
    }
    Config alone =
        config(
            "[refdb]\n\tglobal = etcd\n[gerrit]\n\tinstallDbModule = "
                + RefdbDbModule.class.getName()
                + "\n\tinstallModule = "
                + RefdbModule.class.getName()
                + "\n");
    GlobalMode.checkAlone(alone, Settings.of(alone));
  }

  @Test
  void whereItCannotBeLoadedAllUpdatesAreRefused() throws Exception {
    Config config = config("[refdb]\n\tglobal = etcd\n");
    GlobalDecision missing = GlobalMode.load(config, new SitePaths(folder), true).orElseThrow();
    assertTrue(missing.has("any"));
    String said =
        assertThrows(NotAgreedException.class, () -> missing.committer("any", null).commit(null, null)).getMessage();
    assertTrue(said.contains("refdb-global.jar"), said);
    Files.createDirectories(folder.resolve("plugins"));
    Files.writeString(folder.resolve("plugins/refdb-global.jar"), "no jar");
    GlobalDecision broken = GlobalMode.load(config, new SitePaths(folder), true).orElseThrow();
    assertThrows(NotAgreedException.class, () -> broken.committer("any", null).commit(null, null));
  }

  @Test
  void aRepositoryIsMarkedOnce() throws Exception {
    Path file = folder.resolve("config");
    Files.writeString(file, "[core]\n\tbare = true\n");
    GlobalMode.mark(folder);
    String marked = Files.readString(file);
    assertTrue(marked.contains("global = etcd") && marked.contains("bare = true"), marked);
    GlobalMode.mark(folder);
    assertEquals(marked, Files.readString(file));
  }

  /** Previously, a setting that another program changed while a repository was being marked could be lost. */
  @Test
  void whatAnotherProgramSetsWhileARepositoryIsMarkedIsKept() throws Exception {
    File file = folder.resolve("config").toFile();
    for (int i = 0; i < 300; i++) {
      Files.writeString(file.toPath(), "[core]\n\tbare = true\n");
      Thread other = Thread.ofPlatform().start(() -> appendUnderLock(file, "[gc]\n\tauto = 0\n"));
      while (!isMarked()) {}
      other.join();
      String both = Files.readString(file.toPath());
      assertTrue(both.contains("auto = 0") && both.contains("global = etcd"), both);
    }
  }

  private boolean isMarked() throws IOException {
    try {
      GlobalMode.mark(folder);
      return true;
    } catch (LockFailedException e) {
      return false;
    }
  }

  /** Changes a configuration as git does. */
  private static void appendUnderLock(File file, String text) {
    try {
      LockFile lock = new LockFile(file);
      while (!lock.lock()) {}
      lock.write((Files.readString(file.toPath()) + text).getBytes(UTF_8));
      assertTrue(lock.commit());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

package org.refdb.gerrit.cache.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.Cache;
import org.refdb.engine.NativeLibrary;

class CacheFolderTest {
  @TempDir Path root;

  /** Regression: the start of a server waited for somebody to write to the pipe. */
  @Test
  void aPipeInPlaceOfTheNoteIsReplaced() throws Exception {
    CacheFolder folder = CacheFolder.of(root, "strings");
    Path pipe = Files.createDirectories(folder.path()).resolve("v1.keys");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    assertTimeoutPreemptively(
        Duration.ofSeconds(40),
        () -> {
          assertNull(folder.hasTextKeys(1));
          folder.noteKeys(1, true);
        });
    assertEquals(true, folder.hasTextKeys(1));
  }

  @Test
  void theEngineHasTheSameFolders() throws Exception {
    NativeLibrary.load(root.resolve("native"), "choose");
    for (String name : List.of("web_sessions", "plugin.cache-1", ".hidden", "a/b", "größe", "50%", "%")) {
      Cache.open(new Cache.Options(root, name, 3, Cache.SMALLEST_LIMIT_BYTES, null, null, List.of())).close();
      CacheFolder folder = CacheFolder.of(root, name);
      assertTrue(Files.isDirectory(folder.path().resolve("v3")), name);
      assertEquals(name, folder.cache());
      assertEquals(3, folder.version());
      assertTrue(CacheFolder.all(root).stream().anyMatch(one -> one.cache().equals(name)), name);
    }
  }

  @Test
  void aStrayFolderIsNoCache() throws Exception {
    for (String stray : List.of("100%25off%zz", "%XX", "lost+found", ".nfs")) {
      Files.createDirectories(root.resolve(stray));
    }
    assertEquals(List.of(), CacheFolder.all(root).stream().map(CacheFolder::cache).toList());
  }

  @Test
  void whatItsKeysAreIsNotedByVersion() throws Exception {
    CacheFolder folder = CacheFolder.of(root, "c");
    Files.createDirectories(folder.path());
    assertEquals(-1, folder.version());
    assertNull(folder.hasTextKeys(1));
    folder.noteKeys(1, true);
    folder.noteKeys(2, false);
    assertEquals(true, folder.hasTextKeys(1));
    assertEquals(false, folder.hasTextKeys(2));
    folder.noteKeys(2, true);
    assertEquals(true, folder.hasTextKeys(2));
  }
}

package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.store.NativeOpener;

/** Where the native library cannot be loaded, Gerrit has its H2 caches. */
class FallbackTest {
  @TempDir Path site;

  @Test
  void withoutTheEngineTheCachesAreGerritsOwn() throws Exception {
    Killed.withoutEngine(site);
    assertTrue(Files.exists(site.resolve("cache").resolve("strings-v2.mv.db")), "no H2 cache");
    assertTrue(Files.notExists(site.resolve("cache").resolve(NativeOpener.FOLDER)));
  }
}

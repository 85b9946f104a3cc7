package org.refdb.gerrit.cache.h2;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.cache.h2.H2CacheModule;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.Cache.Found;
import org.refdb.gerrit.cache.HeapOpener;
import org.refdb.gerrit.cache.TestGerrit;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/** An import from H2 that is interrupted, and the next start. */
class ResumedTakeoverTest {
  private static final int ENTRIES = 300;
  private static final int BEFORE_THE_END = 100;

  @TempDir Path site;
  private final HeapOpener opener = new HeapOpener();
  private final CountDownLatch interrupted = new CountDownLatch(1);

  @BeforeEach
  void fillH2() {
    try (TestGerrit h2 =
        new TestGerrit(site, TestGerrit.config(), new H2CacheModule(), TestGerrit.strings("strings"))) {
      for (int i = 0; i < ENTRIES; i++) {
        h2.strings().put("key " + i, "from H2");
      }
    }
  }

  private TestGerrit start() {
    return new TestGerrit(site, TestGerrit.config(), TestGerrit.serverOn(opener), TestGerrit.strings("strings"));
  }

  private Map<ByteBuffer, Found> disk() {
    return opener.files.get("strings 1");
  }

  /** Starts a server whose import stands still after {@link #BEFORE_THE_END} entries, until it is interrupted. */
  private TestGerrit startAndStandStill() throws Exception {
    AtomicInteger puts = new AtomicInteger();
    CountDownLatch middle = new CountDownLatch(1);
    opener.beforePut =
        () -> {
          if (puts.incrementAndGet() > BEFORE_THE_END && Thread.currentThread().getName().contains("import")) {
            middle.countDown();
            try {
              interrupted.await();
            } catch (InterruptedException e) {
              Thread.currentThread().interrupt();
              throw new IllegalStateException("interrupted", e);
            }
          }
        };
    TestGerrit gerrit = start();
    assertTrue(middle.await(1, TimeUnit.MINUTES));
    opener.beforePut = () -> {};
    assertEquals(BEFORE_THE_END, disk().size());
    return gerrit;
  }

  private void awaitEntries(int entries) throws Exception {
    Path importing = new H2File(site.resolve("cache"), "strings").importing();
    for (int i = 0; i < 6000 && Files.exists(importing); i++) {
      Thread.sleep(10);
    }
    assertFalse(Files.exists(importing), "the import does not end");
    assertEquals(entries, disk().size());
  }

  @Test
  void aStopDuringAnImportIsMadeUpForByTheNextStart() throws Exception {
    startAndStandStill().close();
    assertEquals(BEFORE_THE_END, disk().size());
    try (TestGerrit gerrit = start()) {
      awaitEntries(ENTRIES);
      assertEquals("from H2", gerrit.strings().getIfPresent("key 299"));
    }
  }

  @Test
  void afterAKillDuringAnImportNoInvalidatedKeyComesBack() throws Exception {
    H2File file = new H2File(site.resolve("cache"), "strings");
    Store store = opener.open(spec());
    ImportingStore importing = new ImportingStore(store, H2Import.begin(file));
    for (int i = 0; i < BEFORE_THE_END; i++) {
      byte[] key = ("key " + i).getBytes(UTF_8);
      assertEquals(Store.Placed.STORED, importing.importEntry(key, "from H2".getBytes(UTF_8), 1));
    }
    for (String key : List.of("key 1", "key 200", "key 201")) {
      importing.invalidate(key.getBytes(UTF_8), false);
    }
    importing.put("key 201".getBytes(UTF_8), "new".getBytes(UTF_8), 5, false);
    importing.put("key 202".getBytes(UTF_8), "new".getBytes(UTF_8), 5, false);
    disk().remove(ByteBuffer.wrap("key 202".getBytes(UTF_8))); // evicted since
    // Killed here: nothing is closed.
    try (TestGerrit gerrit = start()) {
      awaitEntries(ENTRIES - 3);
      assertNull(gerrit.strings().getIfPresent("key 1"), "had been imported");
      assertNull(gerrit.strings().getIfPresent("key 200"), "had not been imported yet");
      assertEquals("new", gerrit.strings().getIfPresent("key 201"));
      assertNull(gerrit.strings().getIfPresent("key 202"), "older than what was evicted");
      assertEquals("from H2", gerrit.strings().getIfPresent("key 299"));
    }
  }

  private StoreOpener.Spec spec() {
    return new StoreOpener.Spec(site.resolve("cache"), "strings", 1, 1 << 20, null, EncryptionKeys.NONE, true);
  }

  @Test
  void withoutTheListOfChangesNothingMoreIsImported() throws Exception {
    startAndStandStill().close();
    H2File file = new H2File(site.resolve("cache"), "strings");
    Files.delete(file.changedKeys());
    try (TestGerrit gerrit = start()) {
      awaitEntries(BEFORE_THE_END);
      assertTrue(Files.exists(file.aside()));
      gerrit.strings().put("new", "value");
      assertEquals(BEFORE_THE_END + 1, disk().size());
    }
  }

  @Test
  void aFlushDuringAnImportEndsItForGood() throws Exception {
    H2File file = new H2File(site.resolve("cache"), "strings");
    ImportingStore importing = new ImportingStore(opener.open(spec()), H2Import.begin(file));
    importing.clear(false);
    // Killed here.
    try (TestGerrit gerrit = start()) {
      awaitEntries(0);
      assertNull(gerrit.strings().getIfPresent("key 1"));
    }
  }

  /** Runs a task while the H2 file cannot be set aside, because a folder has the name. */
  private static void withoutAside(H2File file, Runnable task) throws Exception {
    Files.createDirectories(file.aside().resolve("full"));
    task.run();
    Files.delete(file.aside().resolve("full"));
    Files.delete(file.aside());
  }

  @Test
  void aFlushEndsAnImportForGoodThoughTheH2FileCannotBeSetAside() throws Exception {
    H2File file = new H2File(site.resolve("cache"), "strings");
    ImportingStore importing = new ImportingStore(opener.open(spec()), H2Import.begin(file));
    withoutAside(file, () -> importing.clear(false));
    // Killed here.
    try (TestGerrit gerrit = start()) {
      awaitEntries(0);
      assertNull(gerrit.strings().getIfPresent("key 1"));
    }
  }

  @Test
  void whatIsInvalidatedAfterAnImportStaysAwayThoughTheH2FileCannotBeSetAside() throws Exception {
    H2File file = new H2File(site.resolve("cache"), "strings");
    ImportingStore importing = new ImportingStore(opener.open(spec()), H2Import.begin(file));
    byte[] key = "key 1".getBytes(UTF_8);
    importing.importEntry(key, "from H2".getBytes(UTF_8), 1);
    withoutAside(
        file,
        () -> {
          importing.endImport();
          importing.invalidate(key, false);
          importing.close();
        });
    try (TestGerrit gerrit = start()) {
      awaitEntries(0);
      assertNull(gerrit.strings().getIfPresent("key 1"));
    }
  }

  @Test
  void anImportThatEndsForWantOfMemoryIsOver() throws Exception {
    AtomicInteger puts = new AtomicInteger();
    opener.beforePut =
        () -> {
          if (puts.incrementAndGet() > BEFORE_THE_END) {
            throw new OutOfMemoryError("planted");
          }
        };
    try (TestGerrit gerrit = start()) {
      awaitEntries(BEFORE_THE_END);
      assertNull(gerrit.strings().getIfPresent("key 299"));
    }
  }
}

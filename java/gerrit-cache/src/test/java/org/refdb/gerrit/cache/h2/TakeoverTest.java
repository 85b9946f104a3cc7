package org.refdb.gerrit.cache.h2;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import com.google.gerrit.server.cache.PersistentCache;
import com.google.gerrit.server.cache.serialize.JavaCacheSerializer;
import com.google.gerrit.server.cache.serialize.ObjectIdCacheSerializer;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.eclipse.jgit.lib.ObjectId;
import org.h2.Driver;
import org.junit.jupiter.api.Test;
import org.refdb.engine.Cache.Found;
import org.refdb.gerrit.cache.HeapOpener;
import org.refdb.gerrit.cache.Killed;
import org.refdb.gerrit.cache.TestGerrit;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/** From Gerrit's own H2 caches to refdb's and back. */
class TakeoverTest extends H2Site {
  private static final int ENTRIES = 1500;

  TakeoverTest() {
    super("java");
  }

  private void fill(TestGerrit gerrit) {
    for (int i = 0; i < ENTRIES; i++) {
      gerrit.strings().put("kéy " + i, "value " + i);
      objects(gerrit).put(id(i), "object " + i);
    }
    lists(gerrit).put("list", new ArrayList<>(List.of("a", "b")));
  }

  private static long diskEntries(Cache<?, ?> cache) {
    return ((PersistentCache) cache).diskStats().size();
  }

  private static void await(BooleanSupplier condition) throws Exception {
    for (int i = 0; i < 12_000 && !condition.getAsBoolean(); i++) {
      Thread.sleep(10);
    }
    assertTrue(condition.getAsBoolean(), "not within two minutes");
  }

  private void awaitImport(TestGerrit gerrit) throws Exception {
    await(
        () ->
            diskEntries(gerrit.strings()) == ENTRIES
                && diskEntries(objects(gerrit)) == ENTRIES
                && diskEntries(lists(gerrit)) == 1);
  }

  @Test
  void whatH2HasIsTakenOverWithItsAges() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    now.addAndGet(Duration.ofHours(11).toMillis());
    try (TestGerrit gerrit = refdb(1)) {
      awaitImport(gerrit);
      for (int i = 0; i < ENTRIES; i++) {
        assertEquals("value " + i, gerrit.strings().getIfPresent("kéy " + i));
        assertEquals("object " + i, objects(gerrit).getIfPresent(id(i)));
      }
      assertEquals(List.of("a", "b"), lists(gerrit).getIfPresent("list"));
      now.addAndGet(Duration.ofHours(1).toMillis());
      assertNull(gerrit.strings().getIfPresent("kéy 1"), "twelve hours old, though taken over an hour ago");
      assertEquals("object 1", objects(gerrit).getIfPresent(id(1)));
    }
  }

  @Test
  void bytesAreTakenOverUntouched() throws Exception {
    ObjectId key = id(77);
    byte[] value = new JavaCacheSerializer<ArrayList<String>>()
        .serialize(new ArrayList<>(List.of("x")));
    try (TestGerrit h2 = h2(1)) {
      objects(h2).put(key, "object");
      lists(h2).put("list", new ArrayList<>(List.of("x")));
    }
    HeapOpener opener = new HeapOpener();
    try (TestGerrit gerrit =
        new TestGerrit(
            site, TestGerrit.config(), TestGerrit.programOn(opener), caches(1))) {
      lists(gerrit).getIfPresent("list"); // an offline program imports before the first use
      objects(gerrit).getIfPresent(key);
    }
    Found list = opener.files.get("java 1").get(ByteBuffer.wrap("list".getBytes(UTF_8)));
    assertEquals(ByteBuffer.wrap(value), ByteBuffer.wrap(list.value()));
    assertEquals(now.get(), list.createdMillis());
    byte[] keyBytes = ObjectIdCacheSerializer.INSTANCE.serialize(key);
    assertEquals("object", new String(opener.files.get("objects 1").get(ByteBuffer.wrap(keyBytes)).value(), UTF_8));
  }

  @Test
  void onlyTheCurrentVersionIsTakenOver() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    try (TestGerrit h2 = h2(2)) {
      h2.strings().put("new", "version");
    }
    try (TestGerrit gerrit = refdb(2)) {
      await(() -> diskEntries(gerrit.strings()) == 1);
      assertEquals("version", gerrit.strings().getIfPresent("new"));
      assertNull(gerrit.strings().getIfPresent("kéy 1"));
    }
  }

  @Test
  void whatIsChangedDuringTheImportWins() throws Exception {
    HeapOpener opener = new HeapOpener();
    StoreOpener.Spec spec = new StoreOpener.Spec(site, "c", 1, 1 << 20, null, EncryptionKeys.NONE, true);
    H2File file = new H2File(site, "c");
    Files.writeString(file.own(), "H2's");
    ImportingStore store = new ImportingStore(opener.open(spec), H2Import.begin(file));
    byte[] removed = {1};
    byte[] changed = {2};
    byte[] untouched = {3};
    byte[] old = {9};
    store.invalidate(removed, false);
    store.put(changed, new byte[] {5}, 7, false);
    assertNull(store.importEntry(removed, old, 1));
    assertNull(store.importEntry(changed, old, 1));
    assertEquals(Store.Placed.STORED, store.importEntry(untouched, old, 1));
    assertNull(store.get(removed, Found::new));
    assertEquals(5, store.get(changed, Found::new).value()[0]);
    assertEquals(9, store.get(untouched, Found::new).value()[0]);
    store.clear(false);
    assertNull(store.importEntry(untouched, old, 1));
    assertNull(store.get(untouched, Found::new), "flushed during the import");
    assertFalse(store.isImporting());
    assertTrue(Files.exists(file.aside()) && !Files.exists(file.importing()), "not to be gone on with after a flush");
  }

  /** A request that changes the cache waits while an entry is imported, so an import must not wait for room. */
  @Test
  void anImportThatFindsNoRoomKeepsNobodyWaiting() throws Exception {
    HeapOpener opener = new HeapOpener();
    StoreOpener.Spec spec = new StoreOpener.Spec(site, "c", 1, 1 << 20, null, EncryptionKeys.NONE, true);
    H2File file = new H2File(site, "c");
    Files.writeString(file.own(), "H2's");
    opener.refuse(1);
    try (ImportingStore store = new ImportingStore(opener.open(spec), H2Import.begin(file))) {
      assertEquals(Store.Placed.NO_ROOM, store.importEntry(new byte[] {1}, new byte[] {2}, 1));
      assertEquals(Store.Placed.STORED, store.importEntry(new byte[] {1}, new byte[] {2}, 1));
    }
  }

  @Test
  void aReturnToH2StartsEmptyAndTheNextTakeoverForgetsWhatRefdbHad() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      h2.strings().put("session", "before");
      h2.strings().put("ended", "before");
    }
    try (TestGerrit gerrit = refdb(1)) {
      await(() -> diskEntries(gerrit.strings()) == 2);
      gerrit.strings().invalidate("ended");
      gerrit.strings().put("ends with H2", "value");
    }
    try (TestGerrit h2 = h2(1)) {
      assertNull(h2.strings().getIfPresent("ended"), "a session that was ended came back");
      h2.strings().put("in H2", "value");
    }
    try (TestGerrit gerrit = refdb(1)) {
      await(() -> diskEntries(gerrit.strings()) == 1);
      assertEquals("value", gerrit.strings().getIfPresent("in H2"));
      assertNull(gerrit.strings().getIfPresent("ends with H2"), "H2 had the caches since");
    }
  }

  @Test
  void aServerWithH2CachesThatRunsIsNotDisturbed() throws Exception {
    Path file = site.resolve("cache").resolve("strings-v2.mv.db");
    Killed.whileH2Runs(
        site,
        () -> {
          assertTrue(Files.exists(file));
          try (TestGerrit gerrit = refdb(1)) {
            assertNull(gerrit.strings().getIfPresent("key"));
            gerrit.strings().put("other", "value");
            assertEquals("value", gerrit.strings().getIfPresent("other"), "in memory");
          }
          assertTrue(Files.exists(file), "taken away from a running server");
        });
  }

  @Test
  void anH2FileInWhichNothingWasEverStoredIsEmptyAndNoError() throws Exception {
    H2File file = new H2File(site, "c");
    new Driver().connect(H2File.url(file.own()), new Properties()).close();
    assertFalse(file.has(new Driver(), file.own(), 1));
    assertEquals(List.of(), file.versions(new Driver(), file.own()));
    assertNull(file.hasTextKeys(new Driver(), file.own()));
  }

  @Test
  void anH2FileHasEntriesOfTheVersionsThatWereUsed() throws Exception {
    try (TestGerrit h2 = h2(2)) {
      h2.strings().put("key", "value");
    }
    H2File file = new H2File(site.resolve("cache"), "strings");
    assertTrue(file.has(new Driver(), file.own(), 2));
    assertFalse(file.has(new Driver(), file.own(), 1));
  }

  @Test
  void aHarmedH2FileIsSetAside() throws Exception {
    Path file = site.resolve("cache").resolve("strings-v2.mv.db");
    Files.createDirectories(file.getParent());
    Files.writeString(file, "not a database");
    try (TestGerrit gerrit = refdb(1)) {
      assertFalse(Files.exists(file));
      gerrit.strings().put("key", "value");
    }
    try (TestGerrit gerrit = refdb(1)) {
      assertEquals("value", gerrit.strings().getIfPresent("key"));
    }
  }

  @Test
  void aStopDuringAnImportEndsIt() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    HeapOpener opener = new HeapOpener();
    CountDownLatch importing = new CountDownLatch(1);
    opener.beforePut = importing::countDown;
    try (TestGerrit gerrit =
        new TestGerrit(
            site, TestGerrit.config(), TestGerrit.serverOn(opener), caches(1))) {
      assertTrue(importing.await(30, TimeUnit.SECONDS));
      assertFalse(gerrit.readOnly().get());
    }
    assertEquals(opener.opened.get(), opener.closed.get());
    assertEquals(new Driver().getMajorVersion(), 2, "the H2 that Gerrit ships");
  }
}

package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.SettableFuture;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.Cache.Found;

/** A value that was read or loaded before its key was invalidated is served to nobody who asks later. */
class InvalidationTest {
  @TempDir Path site;
  private final HeapOpener opener = new HeapOpener();
  private TestGerrit gerrit;

  @BeforeEach
  void start() {
    gerrit =
        new TestGerrit(
            site,
            TestGerrit.config(),
            new CacheBindings(RefdbCacheFactory.OpenTime.AT_ONCE, opener),
            TestGerrit.strings("strings"));
  }

  @AfterEach
  void stop() {
    gerrit.close();
  }

  private Map<ByteBuffer, Found> file(String name) {
    return opener.files.get(name + " 1");
  }

  private static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(UTF_8));
  }

  /** Puts a value on disk, and makes a thread that has read the value wait before it puts the value into memory. */
  private Pause pauseAfterReadingAStaleValue() {
    file("strings").put(bytes("key"), new Found("stale".getBytes(UTF_8), System.currentTimeMillis()));
    Pause read = new Pause();
    opener.afterGet = read;
    return read;
  }

  @Test
  void aReaderThatIsOvertakenByAnInvalidationDoesNotBringTheValueBackToMemory() throws Exception {
    Cache<String, String> cache = gerrit.strings();
    Pause read = pauseAfterReadingAStaleValue();
    try (ExecutorService pool = Executors.newSingleThreadExecutor()) {
      Future<String> reader = pool.submit(() -> cache.getIfPresent("key"));
      read.awaitReached();
      opener.afterGet = () -> {};
      cache.invalidate("key");
      read.end();
      assertEquals("stale", reader.get(), "asked before the invalidation");
    }
    assertNull(cache.getIfPresent("key"));
  }

  /**
   * Regression: the clock ticked before the store changed, so a reader in between counted as later and its stale value
   * stayed.
   */
  @Test
  void aReaderInTheMidstOfAnInvalidationDoesNotBringTheValueBackToMemory() throws Exception {
    readInTheMidstOf(() -> gerrit.strings().invalidate("key"));
  }

  @Test
  void aReaderInTheMidstOfAFlushDoesNotBringTheValueBackToMemory() throws Exception {
    readInTheMidstOf(() -> gerrit.strings().invalidateAll());
  }

  private void readInTheMidstOf(Runnable removal) throws Exception {
    Cache<String, String> cache = gerrit.strings();
    Pause read = pauseAfterReadingAStaleValue();
    try (ExecutorService pool = Executors.newSingleThreadExecutor()) {
      Future<?>[] reader = new Future<?>[1];
      opener.beforeRemoval = () -> {
        reader[0] = pool.submit(() -> cache.getIfPresent("key"));
        read.awaitReached();
      };
      removal.run();
      opener.afterGet = () -> {};
      read.end();
      reader[0].get();
    }
    assertNull(cache.getIfPresent("key"));
  }

  @Test
  void aLoadThatIsOvertakenByAFlushIsNeitherInMemoryNorOnDisk() throws Exception {
    Cache<String, String> cache = gerrit.strings();
    Pause loading = new Pause();
    try (ExecutorService pool = Executors.newSingleThreadExecutor()) {
      Future<String> loader =
          pool.submit(
              () ->
                  cache.get(
                      "key",
                      () -> {
                        loading.run();
                        return "stale";
                      }));
      loading.awaitReached();
      Future<?> flush;
      try (ExecutorService other = Executors.newSingleThreadExecutor()) {
        flush = other.submit(() -> gerrit.strings().invalidateAll());
        Thread.yield();
        // The memory tier may wait for the load under way; the change is on record before that.
        while (((DiskCache<?, ?>) cache).disk().now() == 0) {
          Thread.sleep(1);
        }
        loading.end();
      }
      flush.get();
      assertEquals("stale", loader.get());
    }
    assertNull(file("strings").get(bytes("key")));
    assertEquals("fresh", cache.get("key", () -> "fresh"));
  }

  @Test
  void aReloadThatIsOvertakenByAnInvalidationStoresNothing() throws Exception {
    SettableFuture<String> reload = SettableFuture.create();
    CountDownLatch reloading = new CountDownLatch(1);
    AtomicInteger loads = new AtomicInteger();
    LoadingCache<String, String> cache =
        gerrit
            .factory()
            .build(
                TestDef.named("reloaded"),
                new CacheLoader<String, String>() {
                  @Override
                  public String load(String key) {
                    return "load " + loads.incrementAndGet();
                  }

                  @Override
                  public ListenableFuture<String> reload(String key, String old) {
                    reloading.countDown();
                    return reload;
                  }
                });
    assertEquals("load 1", cache.get("key"));
    try (ExecutorService pool = Executors.newSingleThreadExecutor()) {
      Future<?> refresh = pool.submit(() -> cache.refresh("key")); // with cache.threads = 0 it waits for the reload
      reloading.await();
      cache.invalidate("key");
      reload.set("stale");
      refresh.get();
    }
    assertNull(file("reloaded").get(bytes("key")));
    assertEquals("load 2", cache.get("key"));
  }

  @Test
  void anInvalidationBeatsAPutThatIsAboutToBeStored() throws Exception {
    LoadingCache<String, String> cache =
        gerrit.factory().build(TestDef.named("queued"), CacheContractTest.loader(key -> "stale"));
    Pause storing = new Pause();
    opener.beforePut = storing;
    try (ExecutorService pool = Executors.newFixedThreadPool(2)) {
      Future<String> load = pool.submit(() -> cache.get("key"));
      storing.awaitReached();
      Future<?> invalidation = pool.submit(() -> cache.invalidate("key"));
      storing.end();
      load.get();
      invalidation.get();
    }
    assertNull(file("queued").get(bytes("key")), "the store keeps what was invalidated");
    assertNull(cache.getIfPresent("key"));
  }

  /** Each value names the state it was made from. After an invalidation no value of an earlier state may be seen. */
  @Test
  void manyThreadsNeverSeeAValueFromBeforeAnInvalidation() throws Exception {
    stress(TestDef.named("stress").withWeight(4), 20_000); // evictions make readers go to disk
  }

  /**
   * Regression: without a memory tier, a call could join a load whose value another caller had found current before the
   * change.
   */
  @Test
  void norDoThreadsWithoutAMemoryTierThatShareALoad() throws Exception {
    stress(TestDef.named("stress").withWeight(0), 100_000);
  }

  private void stress(TestDef def, int calls) throws Exception {
    AtomicInteger[] truth = new AtomicInteger[8];
    Arrays.setAll(truth, i -> new AtomicInteger());
    LoadingCache<String, String> cache =
        gerrit
            .factory()
            .build(def, CacheContractTest.loader(key -> String.valueOf(truth[Integer.parseInt(key)].get())));
    try (ExecutorService pool = Executors.newFixedThreadPool(4)) {
      Future<?>[] threads = new Future<?>[4];
      for (int t = 0; t < threads.length; t++) {
        threads[t] = pool.submit(() -> stress(cache, truth, calls));
      }
      for (Future<?> thread : threads) {
        thread.get();
      }
    }
  }

  /**
   * Reads at random, and now and then changes the truth, invalidates, and asserts that the value seen after that is at
   * least as new.
   */
  static Void stress(LoadingCache<String, String> cache, AtomicInteger[] truth, int calls) throws Exception {
    ThreadLocalRandom random = ThreadLocalRandom.current();
    for (int i = 0; i < calls; i++) {
      int at = random.nextInt(truth.length);
      String key = String.valueOf(at);
      switch (random.nextInt(20)) {
        case 0 -> {
          int changed = truth[at].incrementAndGet();
          cache.invalidate(key);
          newEnough(cache.get(key), changed);
        }
        case 1 -> {
          int changed = truth[at].incrementAndGet();
          cache.invalidateAll();
          String seen = cache.getIfPresent(key);
          newEnough(seen == null ? cache.get(key) : seen, changed);
        }
        case 2, 3, 4 -> cache.getIfPresent(key);
        default -> cache.get(key);
      }
    }
    return null;
  }

  private static void newEnough(String seen, int changed) {
    if (Integer.parseInt(seen) < changed) {
      throw new AssertionError("saw " + seen + " after state " + changed + " was announced");
    }
  }

  /**
   * Regression: the lock of the key's stripe was held during the sync, so one slow sync blocked changes of other keys.
   */
  @Test
  void aDurableChangeWaitsForTheDiskWithoutTheLockThatOrdersItsKey() throws Exception {
    Cache<String, String> sessions = gerrit.factory().build(TestDef.named("web_sessions"));
    Pause settle = new Pause();
    opener.beforeSettle = settle;
    try (ExecutorService pool = Executors.newFixedThreadPool(2)) {
      Future<?> login = pool.submit(() -> sessions.put("cookie", "session"));
      settle.awaitReached();
      opener.beforeSettle = () -> {};
      Future<?> logout = pool.submit(() -> sessions.invalidate("cookie"));
      try {
        logout.get(2, TimeUnit.MINUTES);
      } finally {
        settle.end();
      }
      login.get();
    }
    assertNull(sessions.getIfPresent("cookie"), "the logout came after the login");
    assertEquals(0, file("web_sessions").size());
  }

  /** Regression: after a put that failed, the replaced entry was removed in memory only, and came back after a kill. */
  @Test
  void aDurablePutThatFindsNoRoomBeforeTheDiskFailsMakesItsRemovalDurable() {
    Cache<String, String> sessions = gerrit.factory().build(TestDef.named("web_sessions"));
    sessions.put("cookie", "old");
    int synced = opener.syncs.get();
    opener.refuses.set(1);
    opener.beforePut = () -> {
      if (opener.refuses.get() == 0) { // the second attempt
        throw new java.io.UncheckedIOException(new java.io.IOException("the disk takes nothing"));
      }
    };
    sessions.put("cookie", "new");
    opener.beforePut = () -> {};
    assertEquals(0, file("web_sessions").size());
    assertEquals(synced + 1, opener.syncs.get());
  }

  @Test
  void aPutThatFindsNoRoomIsMadeLater() throws Exception {
    Cache<String, String> cache = gerrit.strings();
    opener.refuses.set(3);
    cache.put("key", "value");
    assertEquals(1, file("strings").size(), "there was room at the fourth attempt");
    Pause put = new Pause();
    opener.refuses.set(1);
    opener.beforePut = () -> {
      if (opener.refuses.get() == 0) {
        put.run(); // the second attempt
      }
    };
    try (ExecutorService pool = Executors.newSingleThreadExecutor()) {
      Future<?> late = pool.submit(() -> cache.put("key", "new"));
      put.awaitReached();
      put.end();
      late.get();
    }
    opener.beforePut = () -> {};
    assertEquals("new", new String(file("strings").get(bytes("key")).value(), UTF_8));
  }

  /** A point at which a thread waits until the test lets it go on. */
  private static final class Pause implements Runnable {
    private final CountDownLatch reached = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);

    @Override
    public void run() {
      reached.countDown();
      await(ended);
    }

    void awaitReached() {
      await(reached);
    }

    void end() {
      ended.countDown();
    }

    private static void await(CountDownLatch latch) {
      try {
        latch.await();
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }
}

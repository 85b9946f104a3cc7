package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.CacheLoader.InvalidCacheLoadException;
import com.google.common.cache.LoadingCache;
import com.google.common.util.concurrent.ExecutionError;
import com.google.common.util.concurrent.UncheckedExecutionException;
import com.google.gerrit.extensions.common.CacheInfo;
import com.google.gerrit.server.cache.CacheInfoFactory;
import com.google.gerrit.server.cache.PersistentCache;
import com.google.gerrit.server.cache.PersistentCache.DiskStats;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.Cache.Found;

/** What callers may expect of a persistent cache: Guava's contract, Gerrit's figures. */
class CacheContractTest {
  @TempDir Path site;
  private final HeapOpener opener = new HeapOpener();
  private TestGerrit gerrit;

  @BeforeEach
  void start() {
    gerrit = start(opener);
  }

  private TestGerrit start(HeapOpener files) {
    return new TestGerrit(
        site,
        TestGerrit.config(),
        new CacheBindings(RefdbCacheFactory.OpenTime.AT_ONCE, files),
        TestGerrit.strings("strings"));
  }

  @AfterEach
  void stop() {
    gerrit.close();
  }

  @Test
  void aValueIsFoundAfterARestart() {
    gerrit.strings().put("key", "value");
    gerrit.close();
    gerrit = start(opener);
    assertEquals("value", gerrit.strings().getIfPresent("key"));
  }

  @Test
  void aValueFromDiskIsNotLoaded() throws Exception {
    gerrit.strings().put("key", "stored");
    gerrit.close();
    gerrit = start(opener);
    assertEquals("stored", gerrit.strings().get("key", () -> "loaded"));
  }

  @Test
  void bothFormsAreLoadingAndPersistentCaches() {
    Cache<String, String> plain = gerrit.factory().build(TestDef.named("plain"));
    assertInstanceOf(PersistentCache.class, plain);
    LoadingCache<String, String> loading = gerrit.factory().build(TestDef.named("loading"), loader(key -> key));
    assertInstanceOf(PersistentCache.class, loading);
    assertThrows(
        UnsupportedOperationException.class, () -> ((LoadingCache<String, String>) plain).get("key"), "no loader");
  }

  @Test
  void oneLoadAnswersAllWhoAskMeanwhile() throws Exception {
    for (long weight : new long[] {1024, 0}) {
      AtomicInteger loads = new AtomicInteger();
      CountDownLatch release = new CountDownLatch(1);
      LoadingCache<String, String> cache =
          gerrit.factory().build(TestDef.named("single" + weight).withWeight(weight), loader(key -> {
            loads.incrementAndGet();
            release.await();
            return "value";
          }));
      try (ExecutorService pool = Executors.newFixedThreadPool(4)) {
        List<Future<String>> answers = new ArrayList<>();
        List<Thread> askers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
          CountDownLatch running = new CountDownLatch(1);
          answers.add(pool.submit(() -> {
            synchronized (askers) {
              askers.add(Thread.currentThread());
            }
            running.countDown();
            return cache.get("key");
          }));
          running.await();
        }
        for (Thread asker : askers) {
          while (asker.getState() == Thread.State.RUNNABLE) {
            Thread.sleep(1); // until it waits for the load
          }
        }
        release.countDown();
        for (Future<String> answer : answers) {
          assertEquals("value", answer.get());
        }
      }
      assertEquals(1, loads.get(), "with memory weight " + weight);
    }
  }

  @Test
  void exceptionsAreWrappedAsGuavaDoes() {
    for (long weight : new long[] {1024, 0}) {
      LoadingCache<String, String> cache =
          gerrit.factory().build(TestDef.named("throws" + weight).withWeight(weight), loader(key -> {
            switch (key) {
              case "checked" -> throw new IOException(key);
              case "unchecked" -> throw new IllegalStateException(key);
              case "error" -> throw new AssertionError(key);
              default -> {
                return null;
              }
            }
          }));
      Throwable checked = assertThrows(ExecutionException.class, () -> cache.get("checked")).getCause();
      assertInstanceOf(IOException.class, checked);
      assertInstanceOf(
          IllegalStateException.class,
          assertThrows(UncheckedExecutionException.class, () -> cache.get("unchecked")).getCause());
      assertThrows(ExecutionError.class, () -> cache.get("error"));
      assertThrows(InvalidCacheLoadException.class, () -> cache.get("null"));
      assertInstanceOf(
          IOException.class,
          assertThrows(UncheckedExecutionException.class, () -> cache.getUnchecked("checked")).getCause());
      assertInstanceOf(
          IOException.class,
          assertThrows(
                  ExecutionException.class,
                  () -> cache.get("other", () -> {
                    throw new IOException("checked");
                  }))
              .getCause());
    }
    assertEquals(0, opener.files.values().stream().mapToInt(Map::size).sum(), "a failed load stored something");
  }

  @Test
  void aFailedLoadIsTriedAgain() throws Exception {
    AtomicInteger loads = new AtomicInteger();
    LoadingCache<String, String> cache =
        gerrit.factory().build(TestDef.named("again"), loader(key -> {
          if (loads.incrementAndGet() == 1) {
            throw new IOException("once");
          }
          return "value";
        }));
    assertThrows(ExecutionException.class, () -> cache.get("key"));
    assertEquals("value", cache.get("key"));
  }

  @Test
  void manyKeysComeFromMemoryDiskAndOneBulkLoad() throws Exception {
    List<List<String>> bulks = new ArrayList<>();
    CacheLoader<String, String> bulk = new CacheLoader<>() {
      @Override
      public String load(String key) {
        return "single";
      }

      @Override
      public Map<String, String> loadAll(Iterable<? extends String> keys) {
        Map<String, String> loaded = new java.util.HashMap<>();
        keys.forEach(key -> loaded.put(key, "bulk"));
        bulks.add(List.copyOf(loaded.keySet()));
        return loaded;
      }
    };
    LoadingCache<String, String> before = gerrit.factory().build(TestDef.named("bulk"), bulk);
    before.put("disk", "stored");
    gerrit.close();
    gerrit = start(opener);
    LoadingCache<String, String> cache = gerrit.factory().build(TestDef.named("bulk"), bulk);
    cache.put("memory", "kept");
    assertEquals(
        Map.of("memory", "kept", "disk", "stored", "absent", "bulk"),
        cache.getAll(List.of("memory", "disk", "absent")));
    assertEquals(List.of(List.of("absent")), bulks);
    assertEquals("bulk", new String(opener.files.get("bulk 1").get(java.nio.ByteBuffer.wrap("absent".getBytes("UTF-8"))).value(), "UTF-8"));
  }

  @Test
  void manyKeysAreLoadedOneByOneWhereTheLoaderKnowsNoOtherWay() throws Exception {
    LoadingCache<String, String> cache = gerrit.factory().build(TestDef.named("each"), loader(key -> key + "!"));
    assertEquals(Map.of("a", "a!", "b", "b!"), cache.getAll(List.of("a", "b")));
    assertEquals(2, opener.files.get("each 1").size());
  }

  @Test
  void theWeigherWeighsTheValueItself() {
    Cache<String, String> cache =
        gerrit.factory().build(TestDef.named("weighed").withWeight(10).withWeigher((key, value) -> value.length()));
    cache.put("fits", "12345678");
    cache.cleanUp();
    assertEquals(1, cache.size());
    cache.put("too large", "123456789 and more");
    cache.cleanUp();
    assertEquals("12345678", cache.getIfPresent("fits"));
    assertEquals("123456789 and more", cache.getIfPresent("too large"), "from disk");
  }

  @Test
  void anotherKindOfKeyIsAMiss() {
    gerrit.strings().put("1", "value");
    assertNull(gerrit.strings().getIfPresent(1));
    gerrit.strings().invalidate(1);
    assertEquals("value", gerrit.strings().getIfPresent("1"));
  }

  @Test
  void whatCannotBeSerialisedIsServedFromMemoryAndItsOlderValueIsGone() {
    Cache<String, String> cache = gerrit.strings();
    cache.put("key", "old");
    cache.put("key", TextSerializer.BROKEN);
    assertEquals(TextSerializer.BROKEN, cache.getIfPresent("key"));
    gerrit.close();
    gerrit = start(opener);
    assertNull(gerrit.strings().getIfPresent("key"));
  }

  @Test
  void whatCannotBeReadIsLoadedAnewAndReplaced() throws Exception {
    gerrit.strings().put("key", "fine");
    opener.files.get("strings 1").replaceAll((key, entry) ->
        new Found(TextSerializer.BROKEN.getBytes(java.nio.charset.StandardCharsets.UTF_8), entry.createdMillis()));
    gerrit.close();
    gerrit = start(opener);
    assertEquals("new", gerrit.strings().get("key", () -> "new"));
    gerrit.close();
    gerrit = start(opener);
    assertEquals("new", gerrit.strings().getIfPresent("key"));
  }

  @Test
  void flushEmptiesBothTiers() {
    gerrit.strings().put("key", "value");
    gerrit.strings().invalidateAll();
    assertNull(gerrit.strings().getIfPresent("key"));
    gerrit.close();
    gerrit = start(opener);
    assertNull(gerrit.strings().getIfPresent("key"));
  }

  @Test
  void showCachesIsToldTheTruth() {
    Cache<String, String> cache = gerrit.strings();
    cache.put("key", "value");
    cache.put("other", "value");
    gerrit.close();
    gerrit = start(opener);
    cache = gerrit.strings();
    cache.getIfPresent("key"); // disk hit
    cache.getIfPresent("key"); // memory hit
    cache.getIfPresent("absent"); // miss in both
    cache.invalidate("other");
    DiskStats stats = ((PersistentCache) cache).diskStats();
    assertEquals(1, stats.size());
    assertEquals("keyvalue".length(), stats.space());
    assertEquals(1, stats.hitCount());
    assertEquals(2, stats.requestCount());
    assertEquals(1, stats.invalidatedCount());
    CacheInfo info = CacheInfoFactory.create("strings", cache);
    assertEquals(CacheInfo.CacheType.DISK, info.type);
    assertEquals(1, info.entries.mem);
    assertEquals(1, info.entries.disk);
    assertEquals(50, info.hitRatio.disk);
    assertEquals(33, info.hitRatio.mem);
  }

  @Test
  void onlyCachesOfSecretsWaitForTheDisk() {
    gerrit.strings().put("key", "value");
    assertEquals(0, opener.syncs.get());
    Cache<String, String> sessions = gerrit.factory().build(TestDef.named("web_sessions"));
    sessions.put("cookie", "session");
    assertEquals(1, opener.syncs.get());
    sessions.invalidate("cookie");
    assertEquals(2, opener.syncs.get());
    sessions.invalidateAll();
    assertEquals(3, opener.syncs.get());
  }

  @Test
  void aLimitOfZeroOrLessMeansMemoryOnly() {
    for (long limit : new long[] {0, -1}) {
      Cache<String, String> cache = gerrit.factory().build(TestDef.named("none" + limit).withDiskLimit(limit));
      assertTrue(!(cache instanceof PersistentCache), "limit " + limit);
    }
    assertEquals(1, opener.opened.get(), "only the cache of the core");
  }

  @Test
  void aLimitInTheConfigurationWins() {
    gerrit.close();
    org.eclipse.jgit.lib.Config config = TestGerrit.config();
    config.setString("cache", "strings", "diskLimit", "0");
    config.setString("cache", "off", "diskLimit", "1g");
    gerrit = new TestGerrit(
        site, config, new CacheBindings(RefdbCacheFactory.OpenTime.AT_ONCE, opener), TestGerrit.strings("strings"));
    assertTrue(!(gerrit.strings() instanceof PersistentCache));
    assertInstanceOf(PersistentCache.class, gerrit.factory().build(TestDef.named("off").withDiskLimit(-1)));
  }

  @Test
  void withoutAFolderAllIsInMemory() {
    gerrit.close();
    gerrit = new TestGerrit(
        site,
        new org.eclipse.jgit.lib.Config(),
        new CacheBindings(RefdbCacheFactory.OpenTime.AT_ONCE, opener),
        TestGerrit.strings("strings"));
    assertTrue(!(gerrit.strings() instanceof PersistentCache));
  }

  @Test
  void memoryAnswersWithTheSameObject() throws Exception {
    String loaded = new String("value");
    assertSame(loaded, gerrit.strings().get("key", () -> loaded));
    assertSame(loaded, gerrit.strings().getIfPresent("key"));
  }

  interface Load {
    String load(String key) throws Exception;
  }

  static CacheLoader<String, String> loader(Load load) {
    return new CacheLoader<>() {
      @Override
      public String load(String key) throws Exception {
        return load.load(key);
      }
    };
  }
}

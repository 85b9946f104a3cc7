package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.gerrit.server.util.time.TimeUtil;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ages count from the value's creation, in whatever process, in both tiers. */
class AgeTest {
  @TempDir Path site;
  private final HeapOpener opener = new HeapOpener();
  private final AtomicLong now = new AtomicLong(1_000_000_000_000L);
  private TestGerrit gerrit;

  @BeforeEach
  void start() {
    TimeUtil.setCurrentMillisSupplier(now::get);
    start(TestGerrit.config());
  }

  private void start(Config config) {
    gerrit =
        new TestGerrit(
            site,
            config,
            new CacheBindings(RefdbCacheFactory.OpenTime.AT_ONCE, opener),
            TestGerrit.strings("strings"));
  }

  @AfterEach
  void stop() {
    gerrit.close();
    TimeUtil.resetCurrentMillisSupplier();
  }

  private void pass(Duration time) {
    now.addAndGet(time.toMillis());
  }

  @Test
  void aValueFromDiskIsNotAsYoungAsItsArrivalInMemory() {
    TestDef def = TestDef.named("old").withAges(Duration.ofHours(12), null);
    gerrit.factory().build(def).put("key", "value");
    gerrit.close();
    start(TestGerrit.config());
    var cache = gerrit.factory().build(def);
    pass(Duration.ofHours(11));
    assertEquals("value", cache.getIfPresent("key"));
    pass(Duration.ofHours(1));
    assertNull(cache.getIfPresent("key"), "in memory for an hour, but 12 hours old");
  }

  @Test
  void aValueTooOldOnDiskIsLoadedAnew() throws Exception {
    TestDef def = TestDef.named("expired").withAges(Duration.ofHours(1), null);
    AtomicInteger loads = new AtomicInteger();
    CacheLoader<String, String> loader = CacheContractTest.loader(key -> "load " + loads.incrementAndGet());
    LoadingCache<String, String> cache = gerrit.factory().build(def, loader);
    assertEquals("load 1", cache.get("key"));
    pass(Duration.ofMinutes(59));
    assertEquals("load 1", cache.get("key"));
    pass(Duration.ofMinutes(1));
    assertEquals("load 2", cache.get("key"));
  }

  @Test
  void aValueFromTheFutureIsTooOldInBothTiers() {
    TestDef def = TestDef.named("future").withAges(Duration.ofHours(12), null);
    var cache = gerrit.factory().build(def);
    pass(Duration.ofDays(30)); // the clock is wrong
    cache.put("key", "value");
    now.addAndGet(-Duration.ofDays(30).toMillis());
    assertNull(cache.getIfPresent("key"), "in memory");
    gerrit.close();
    start(TestGerrit.config());
    cache = gerrit.factory().build(def);
    assertNull(cache.getIfPresent("key"), "on disk");
    cache.put("key", "value");
    now.addAndGet(-Duration.ofSeconds(60).toMillis());
    assertEquals("value", cache.getIfPresent("key"), "two clocks may differ that much");
    now.addAndGet(-1);
    assertNull(cache.getIfPresent("key"));
  }

  @Test
  void maxAgeInTheConfigurationWins() {
    gerrit.close();
    Config config = TestGerrit.config();
    config.setString("cache", "short", "maxAge", "10 min");
    start(config);
    var cache = gerrit.factory().build(TestDef.named("short").withAges(Duration.ofHours(1), null));
    cache.put("key", "value");
    pass(Duration.ofMinutes(10));
    assertNull(cache.getIfPresent("key"));
  }

  @Test
  void aRefreshServesTheOldValueUntilTheNewOneIsThere() throws Exception {
    TestDef def = TestDef.named("refreshed").withAges(null, Duration.ofMinutes(15));
    AtomicInteger loads = new AtomicInteger();
    CacheLoader<String, String> loader =
        new CacheLoader<>() {
          @Override
          public String load(String key) {
            return "load " + loads.incrementAndGet();
          }

          @Override
          public ListenableFuture<String> reload(String key, String old) {
            return Futures.immediateFuture("reload of " + old);
          }
        };
    gerrit.factory().build(def, loader).get("key");
    gerrit.close();
    start(TestGerrit.config());
    pass(Duration.ofMinutes(15));
    LoadingCache<String, String> cache = gerrit.factory().build(def, loader);
    assertEquals("load 1", cache.get("key"), "old, from disk");
    assertEquals("reload of load 1", cache.get("key"));
    gerrit.close();
    start(TestGerrit.config());
    assertEquals("reload of load 1", gerrit.factory().build(def, loader).getIfPresent("key"));
  }

  @Test
  void aFailedRefreshLosesNothing() throws Exception {
    TestDef def = TestDef.named("failing").withAges(null, Duration.ofMinutes(15));
    CacheLoader<String, String> loader =
        new CacheLoader<>() {
          @Override
          public String load(String key) {
            return "value";
          }

          @Override
          public ListenableFuture<String> reload(String key, String old) {
            return Futures.immediateFailedFuture(new IOException("not now"));
          }
        };
    LoadingCache<String, String> cache = gerrit.factory().build(def, loader);
    cache.get("key");
    pass(Duration.ofMinutes(20));
    assertEquals("value", cache.get("key"));
    assertEquals("value", cache.get("key"));
    assertEquals(
        "value",
        new String(opener.files.get("failing 1").get(ByteBuffer.wrap("key".getBytes(UTF_8))).value(), UTF_8));
  }
}

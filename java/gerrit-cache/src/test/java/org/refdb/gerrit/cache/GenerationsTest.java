package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import com.google.gerrit.extensions.registration.DynamicMap;
import com.google.gerrit.extensions.registration.PrivateInternals_DynamicMapImpl;
import com.google.gerrit.extensions.registration.RegistrationHandle;
import com.google.inject.Key;
import com.google.inject.TypeLiteral;
import com.google.inject.name.Names;
import com.google.inject.util.Providers;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Plugins come, are reloaded and go; versions change; other processes run. */
class GenerationsTest {
  @TempDir Path site;
  private final HeapOpener opener = new HeapOpener();
  private TestGerrit gerrit;

  @BeforeEach
  void start() {
    gerrit = start(RefdbCacheFactory.OpenTime.AT_ONCE);
  }

  private TestGerrit start(RefdbCacheFactory.OpenTime openTime) {
    return new TestGerrit(
        site, TestGerrit.config(), new CacheBindings(openTime, opener), TestGerrit.strings("strings"));
  }

  @AfterEach
  void stop() {
    gerrit.close();
  }

  /** Runs one of these tests for a test elsewhere. */
  void withOpener(Path folder, java.util.function.Consumer<GenerationsTest> test) {
    site = folder;
    start();
    try {
      test.accept(this);
    } finally {
      stop();
    }
  }

  private RegistrationHandle export(String plugin, String name, Cache<?, ?> cache) {
    var map =
        (PrivateInternals_DynamicMapImpl<Cache<?, ?>>)
            gerrit.injector.getInstance(Key.get(new TypeLiteral<DynamicMap<Cache<?, ?>>>() {}));
    return map.put(plugin, name, Providers.of(cache));
  }

  private void reload() {
    ((RefdbCacheFactory) gerrit.factory()).reloaded("plugin");
    gerrit.factory().onStop("plugin");
  }

  @Test
  void aPluginsCacheIsMadeAfterTheStartAndClosedWithThePlugin() {
    Cache<String, String> cache = gerrit.factory().build(TestDef.named("plugin.things"));
    export("plugin", "things", cache);
    cache.put("key", "value");
    gerrit.factory().onStop("plugin");
    assertEquals(1, opener.closed.get());
    Cache<String, String> next = gerrit.factory().build(TestDef.named("plugin.things"));
    assertEquals("value", next.getIfPresent("key"));
  }

  @Test
  void twoGenerationsOfAPluginShareACacheAndTheOldOneLeaves() {
    Cache<String, String> old = gerrit.factory().build(TestDef.named("plugin.things"));
    RegistrationHandle registration = export("plugin", "things", old);
    old.put("key", "value");
    Cache<String, String> young = gerrit.factory().build(TestDef.named("plugin.things"));
    assertEquals("value", young.getIfPresent("key"));
    registration.remove();
    export("plugin", "things", young);
    reload(); // Gerrit calls this for the old one, with the new one's caches registered
    assertEquals(0, opener.closed.get(), "the young generation holds it");
    young.put("other", "value");
    gerrit.factory().onStop("plugin");
    assertEquals(1, opener.closed.get());
  }

  /** Previously, the new generation's caches ended with the old one, which had none. */
  @Test
  void aGenerationThatIsTheFirstWithCachesKeepsThemUntilItEnds() {
    Cache<String, String> young = gerrit.factory().build(TestDef.named("plugin.things"));
    export("plugin", "things", young);
    DiskTier<?, ?> tier = ((RefdbCacheFactory) gerrit.factory()).tiers().getLast();
    reload();
    assertEquals(0, opener.closed.get());
    assertTrue(((RefdbCacheFactory) gerrit.factory()).tiers().contains(tier), "the administrator sees it");
    gerrit.factory().onStop("plugin");
    assertEquals(1, opener.closed.get());
    assertFalse(((RefdbCacheFactory) gerrit.factory()).tiers().contains(tier));
  }

  /** Previously, a cache in the map stayed if the plugin had another one that never got there. */
  @Test
  void allCachesOfAPluginEndWithItWhetherTheyAreInTheMapOrNot() {
    export("plugin", "things", gerrit.factory().build(TestDef.named("plugin.things")));
    gerrit.factory().build(TestDef.named("plugin.more"));
    gerrit.factory().onStop("plugin");
    assertEquals(2, opener.closed.get());
  }

  @Test
  void aWarmUpThatComesAfterThePluginsEndOpensNothing() throws Exception {
    gerrit.factory().build(TestDef.named("plugin.things"));
    DiskTier<?, ?> tier = ((RefdbCacheFactory) gerrit.factory()).tiers().getLast();
    gerrit.awaitWarmUp();
    gerrit.factory().onStop("plugin");
    assertEquals(1, opener.closed.get());
    int opened = opener.opened.get();
    tier.warmUp();
    assertEquals(opened, opener.opened.get());
  }

  @Test
  void anOldGenerationThatIsStillUsedFindsItsCache() {
    Cache<String, String> cache = gerrit.factory().build(TestDef.named("plugin.things"));
    gerrit.factory().onStop("plugin");
    cache.put("key", "value");
    assertEquals(1, opener.files.get("plugin.things 1").size());
  }

  @Test
  void aPluginsEndLeavesOtherPluginsCachesAlone() {
    export("plugin.more", "things", gerrit.factory().build(TestDef.named("plugin.more.things")));
    gerrit.factory().onStop("plugin");
    assertEquals(0, opener.closed.get());
  }

  @Test
  void eachGenerationUsesItsOwnSerializer() {
    Cache<String, String> old = gerrit.factory().build(TestDef.named("plugin.things"));
    old.put("key", "value");
    var upper =
        new com.google.gerrit.server.cache.serialize.CacheSerializer<String>() {
          @Override
          public byte[] serialize(String text) {
            return TextSerializer.INSTANCE.serialize(text);
          }

          @Override
          public String deserialize(byte[] bytes) {
            return TextSerializer.INSTANCE.deserialize(bytes).toUpperCase(java.util.Locale.ROOT);
          }
        };
    Cache<String, String> young = gerrit.factory().build(TestDef.named("plugin.things").withSerializer(upper));
    assertEquals("VALUE", young.getIfPresent("key"));
    assertEquals("value", old.getIfPresent("key"));
  }

  @Test
  void aNewVersionStartsEmptyAndRemovesTheOldOnes() {
    gerrit.factory().build(TestDef.named("versioned")).put("key", "value");
    gerrit.close();
    gerrit = start(RefdbCacheFactory.OpenTime.AT_ONCE);
    Cache<String, String> next = gerrit.factory().build(TestDef.named("versioned").withVersion(2));
    assertNull(next.getIfPresent("key"));
    assertFalse(opener.files.containsKey("versioned 1"));
  }

  @Test
  void aSecondServerRunsOnMemoryAndDisturbsNothing() {
    gerrit.strings().put("key", "first");
    opener.inUse = true;
    try (TestGerrit second = start(RefdbCacheFactory.OpenTime.AT_ONCE)) {
      assertNull(second.strings().getIfPresent("key"));
      second.strings().put("key", "second");
      assertEquals("second", second.strings().getIfPresent("key"));
      second.strings().invalidateAll();
    }
    gerrit.close();
    opener.inUse = false;
    gerrit = start(RefdbCacheFactory.OpenTime.AT_ONCE);
    assertEquals("first", gerrit.strings().getIfPresent("key"));
  }

  @Test
  void anOfflineProgramUsesTheServersFiles() {
    gerrit.strings().put("key", "value");
    gerrit.close();
    try (TestGerrit batch = start(RefdbCacheFactory.OpenTime.WHEN_USED)) {
      assertEquals("value", batch.strings().getIfPresent("key"));
      batch.strings().put("made offline", "value");
    }
    gerrit = start(RefdbCacheFactory.OpenTime.AT_ONCE);
    assertEquals("value", gerrit.strings().getIfPresent("made offline"));
  }

  @Test
  void anOfflineProgramThatMayNotWriteWritesNothing() {
    gerrit.strings().put("key", "value");
    gerrit.close();
    opener.opened.set(0);
    opener.inUse = true; // so that opening for writing would fail
    try (TestGerrit batch = start(RefdbCacheFactory.OpenTime.WHEN_USED)) {
      assertEquals(0, opener.opened.get(), "opened before the program could say that it only reads");
      batch.readOnly().set(true);
      assertEquals("value", batch.strings().getIfPresent("key"));
      batch.strings().put("other", "value");
      batch.strings().invalidate("key");
      batch.strings().invalidateAll();
    }
    assertEquals(1, opener.files.get("strings 1").size());
  }

  @Test
  void theSwitchAlsoWorksLater() {
    gerrit.strings().put("key", "value");
    gerrit.readOnly().set(true);
    gerrit.strings().put("other", "value");
    gerrit.strings().invalidate("key");
    assertEquals(1, opener.files.get("strings 1").size());
  }

  @Test
  void whatComesAfterTheEndIsIgnored() throws Exception {
    Cache<String, String> cache = gerrit.strings();
    cache.put("key", "value");
    gerrit.close();
    cache.put("late", "value");
    assertEquals("loaded", cache.get("other", () -> "loaded"));
    cache.invalidate("key");
    cache.invalidateAll();
    assertEquals(1, opener.files.get("strings 1").size());
    assertEquals(opener.opened.get(), opener.closed.get());
    assertTrue(opener.opened.get() > 0);
  }

  @Test
  void theModulesReplaceGerritsOwn() {
    for (Class<?> module : new Class<?>[] {RefdbCacheModule.class, RefdbBatchCacheModule.class}) {
      assertEquals("cache-persistent", module.getAnnotation(com.google.gerrit.server.ModuleImpl.class).name());
    }
    assertEquals(Names.named("DiskCacheReadOnly"), Names.named(RefdbCacheModule.READ_ONLY));
  }
}

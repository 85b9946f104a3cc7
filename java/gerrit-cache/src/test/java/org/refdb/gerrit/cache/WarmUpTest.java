package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.cache.PersistentCache;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A server's first request need not wait for classes to be loaded. */
class WarmUpTest {
  @TempDir Path site;

  private TestGerrit start() {
    return new TestGerrit(
        site, TestGerrit.config(), TestGerrit.refdb(site, TestGerrit.config()), TestGerrit.strings("strings"));
  }

  @Test
  void anEntryOfEachCacheIsReadBesideTheStart() throws Exception {
    try (TestGerrit gerrit = start()) {
      for (int i = 0; i < 1_000; i++) {
        gerrit.strings().put("key " + i, "value");
      }
    }
    int before = TextSerializer.INSTANCE.deserialized.get();
    try (TestGerrit gerrit = start()) {
      PersistentCache cache = (PersistentCache) gerrit.strings();
      gerrit.awaitWarmUp();
      assertEquals(before + 1, TextSerializer.INSTANCE.deserialized.get(), "one value of a thousand");
      assertEquals(0, cache.diskStats().hitCount(), "nobody asked");
    }
  }

  @Test
  void anEntryThatCannotBeReadIsNoReasonToFail() throws Exception {
    try (TestGerrit gerrit = start()) {
      gerrit.strings().put("key", "value");
    }
    TestDef harmed = TestDef.named("strings").withSerializer(new Refusing());
    try (TestGerrit gerrit = start()) {
      DiskTier<?, ?> disk = ((DiskCache<?, ?>) gerrit.factory().build(harmed)).disk();
      disk.warmUp();
      assertTrue(disk.stats().size() >= 0);
    }
  }

  /** A serializer that refuses every value, as after a change of the class. */
  private static final class Refusing implements com.google.gerrit.server.cache.serialize.CacheSerializer<String> {
    @Override
    public byte[] serialize(String text) {
      throw new IllegalArgumentException("not now");
    }

    @Override
    public String deserialize(byte[] bytes) {
      throw new IllegalArgumentException("not now");
    }
  }
}

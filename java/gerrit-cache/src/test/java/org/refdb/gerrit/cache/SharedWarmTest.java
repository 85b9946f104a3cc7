package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.cache.shared.Counts.Event;

/** A cold server copies what others have computed, at a limited rate, and nothing that it could not have computed. */
class SharedWarmTest extends WithWarming {
  private static final int KEYS = 400;

  private SharedNode node() {
    return node(SharedNode.config(redis.address()), TestDef.named("fleet"));
  }

  /** Lets another node compute and share all keys. */
  private void fill() throws Exception {
    try (SharedNode peer = node()) {
      fill(peer, KEYS);
    }
  }

  private static Warming warm(SharedNode node, String cache, int rate) throws IOException {
    return new CacheAdmin(node.factory()).warm(null, cache, rate);
  }

  @Test
  void aWarmedServerComputesAlmostNothingOfWhatItsPeerHas() throws Exception {
    fill();
    try (SharedNode cold = node()) {
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(Warming.State.DONE, progress.state(), progress.text());
      assertEquals(KEYS, progress.stored(), progress.text());
      assertHasItself(cold, KEYS);
      assertEquals(KEYS, ended(warm(cold, "fleet", FAST)).present(), "a second copy finds all there");
    }
  }

  @Test
  void theRateIsALimitAndACopyCanBeStopped() throws Exception {
    fill();
    try (SharedNode cold = node()) {
      long start = System.nanoTime();
      Warming warming = warm(cold, null, 100);
      SharedNode.await(() -> warming.progress().stored() >= 100, "it does not go on");
      assertTrue(System.nanoTime() - start >= TimeUnit.MILLISECONDS.toNanos(800), "100 entries take a second");
      assertTrue(warming.progress().stored() < KEYS);
      assertThrows(IOException.class, () -> new CacheAdmin(cold.factory()).warm(null, null, 0));
      warming.stop();
      Warming.Progress progress = ended(warming);
      assertEquals(Warming.State.STOPPED, progress.state());
      assertTrue(progress.stored() < KEYS, progress.text());
    }
  }

  @Test
  void aCopyThatEndsForWantOfMemoryHasFailed() throws Exception {
    fill();
    try (SharedNode cold = node()) {
      cold.opener.beforePut =
          () -> {
            throw new OutOfMemoryError("planted");
          };
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(Warming.State.FAILED, progress.state(), progress.text());
      assertEquals("planted", progress.failure());
    }
  }

  @Test
  void onlyOneCopyGoesOnAtATime() throws Exception {
    fill();
    try (SharedNode cold = node()) {
      CacheAdmin admin = new CacheAdmin(cold.factory());
      Warming first = admin.warm(null, null, 10);
      assertThrows(IOException.class, () -> admin.warm(null, null, 10));
      first.stop();
      ended(first);
      assertEquals(KEYS, ended(admin.warm(null, null, FAST)).looked());
      assertTrue(admin.warming().isPresent());
    }
  }

  @Test
  void whatIsVoidForeignOrForgedIsNotCopied() throws Exception {
    Config staging = SharedNode.config(redis.address());
    staging.setString("cache", null, "refdbSharedNamespace", "staging");
    try (SharedNode peer = node();
        SharedNode newer = node(SharedNode.config(redis.address()), TestDef.named("fleet").withVersion(2));
        SharedNode other = node(staging, TestDef.named("fleet"));
        SharedNode cold = node()) {
      peer.cache.getAll(List.of("void", "flushed"));
      peer.awaitStored(2);
      cold.shared().flush("fleet");
      SharedNode.await(() -> generations() == 2, "the flush is not known");
      TimeUnit.MILLISECONDS.sleep(1_500); // until all nodes have read it
      peer.cache.getAll(List.of("a", "b", "changed"));
      peer.awaitStored(5);
      newer.cache.get("of another version");
      other.cache.get("of another site");
      newer.awaitStored(1);
      other.awaitStored(1);
      List<String> names = redis.names("site", "fleet");
      assertEquals(6, names.size());
      byte[] moved = (byte[]) redis.call("GET", names.get(0));
      redis.call("SET", (names.get(0).substring(0, names.get(0).length() - 1) + "~").getBytes(UTF_8), moved);
      cold.cache.invalidate("changed");
      Warming.Progress progress = ended(warm(cold, "fleet", FAST));
      assertEquals(2, progress.stored(), progress.text());
      assertEquals(2, cold.opener.files.get("fleet 1").size());
      for (String key : List.of("void", "flushed", "of another version", "of another site", "changed")) {
        cold.cache.get(key);
      }
      assertEquals(5, cold.loads.get());
      assertEquals(0, cold.count(Event.HITS));
    }
  }

  private int generations() {
    return redis.names("site", "generation").size();
  }

  @Test
  void aUserWhoMayNotScanAndAServerThatFailsAreToldToTheAdministrator() throws Exception {
    fill();
    try (SharedNode cold = node()) {
      redis.call("ACL", "SETUSER", "default", "-scan");
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(Warming.State.FAILED, progress.state());
      assertTrue(progress.failure().contains("scan"), progress.failure());
      redis.call("ACL", "SETUSER", "default", "+scan");
      Warming slow = warm(cold, null, 200);
      SharedNode.await(() -> slow.progress().stored() > 0, "it does not go on");
      redis.kill();
      assertEquals(Warming.State.FAILED, ended(slow).state());
      assertFalse(ended(slow).text().isEmpty());
      assertThrows(IOException.class, () -> warm(cold, "no such cache", FAST));
    }
  }

  /** A store that is nearly full has no room for what nobody has asked for. */
  @Test
  void aFullCacheIsNotFilledFurther() throws Exception {
    fill();
    try (SharedNode cold = node(small(), TestDef.named("fleet"))) {
      for (int i = 0; cold.stats().liveBytes() < 900_000; i++) {
        cold.cache.put("own " + i, "x".repeat(10_000));
      }
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(0, progress.stored(), progress.text());
      assertEquals(Warming.State.DONE, progress.state());
    }
  }

  /** By default, a cache such as change_notes has no files, so what is copied must be in memory. */
  @Test
  void aCacheWithoutFilesIsWarmedInMemory() throws Exception {
    try (SharedNode peer = node(inMemory(1024), TestDef.named("fleet"));
        SharedNode cold = node(inMemory(1024), TestDef.named("fleet"))) {
      fill(peer, KEYS);
      cold.cache.invalidate("key 0");
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(KEYS - 1, progress.stored(), progress.text());
      redis.pause();
      try {
        for (int i = 1; i < KEYS; i++) {
          assertEquals("value of key " + i, cold.cache.get("key " + i));
        }
        assertEquals(0, cold.loads.get());
        cold.cache.invalidate("key 1");
        cold.cache.get("key 1");
        assertEquals(1, cold.loads.get(), "an invalidated value does not come back");
        cold.cache.invalidateAll();
        cold.cache.get("key 2");
        assertEquals(2, cold.loads.get());
      } finally {
        redis.resume();
      }
    }
  }

  /** Only so many of the 400 values are taken as displace none of the 50 that are in use. */
  @Test
  void whatIsInUseInMemoryIsNotDisplaced() throws Exception {
    fill();
    try (SharedNode cold = node(inMemory(100), TestDef.named("fleet"))) {
      for (int i = 0; i < 50; i++) {
        cold.cache.get("own " + i);
      }
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(Warming.State.DONE, progress.state(), progress.text());
      assertTrue(progress.stored() >= 25 && progress.stored() <= 30, progress.text());
      cold.cache.cleanUp();
      int before = cold.loads.get();
      for (int i = 0; i < 50; i++) {
        assertNotNull(cold.cache.getIfPresent("own " + i));
      }
      assertEquals(before, cold.loads.get());
      assertTrue(cold.cache.size() <= 80, cold.cache.size() + " values");
    }
  }

  @Test
  void whatTheStoreRefusesIsNotCountedAsStored() throws Exception {
    try (SharedNode peer = node();
        SharedNode cold = node()) {
      peer.cache.getAll(List.of("a", "b"));
      peer.awaitStored(2);
      cold.opener.refuses.set(Integer.MAX_VALUE);
      Warming.Progress progress = ended(warm(cold, null, FAST));
      assertEquals(0, progress.stored(), progress.text());
      assertEquals(2, progress.unusable(), progress.text());
    }
  }

  private Config inMemory(long memoryLimit) {
    Config config = SharedNode.config(redis.address());
    config.setLong("cache", "fleet", "diskLimit", 0);
    config.setLong("cache", "fleet", "memoryLimit", memoryLimit);
    return config;
  }

  private Config small() {
    Config config = SharedNode.config(redis.address());
    config.setLong("cache", "fleet", "diskLimit", 1 << 20);
    return config;
  }
}

package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.util.concurrent.Futures;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.cache.shared.Counts.Event;

/** What one server has computed, another finds on a real server of the shared cache; and never anything else. */
class SharedCacheTest extends WithRedis {
  private static final TestDef FLEET = TestDef.named("fleet");


  private SharedNode node() {
    return node(SharedNode.config(redis.address()), FLEET);
  }

  private SharedNode node(Config config, TestDef def) {
    return new SharedNode(site, config, def, key -> "value of " + key).awaitInUse();
  }

  /** A configuration with keys, the first of which seals. */
  private Config sealed(String... keys) {
    Config config = SharedNode.config(redis.address());
    config.setString("cache", null, "refdbSharedKey", keys[0]);
    config.setStringList("cache", null, "refdbSharedOldKey", List.of(keys).subList(1, keys.length));
    return config;
  }

  private static String key(int seed) {
    byte[] key = new byte[32];
    Arrays.fill(key, (byte) seed);
    return Base64.getEncoder().encodeToString(key);
  }

  @Test
  void whatOneNodeHasComputedAnotherFindsAndKeeps() throws Exception {
    try (SharedNode first = node();
        SharedNode second = node()) {
      assertEquals("value of a", first.cache.get("a"));
      first.awaitStored(1);
      assertEquals("value of a", second.cache.get("a"));
      assertEquals(0, second.loads.get());
      assertEquals(1, second.count(Event.HITS));
      assertEquals(1, second.opener.files.get("fleet 1").size(), "it is stored locally");
      second.cache.get("a");
      assertEquals(1, second.count(Event.HITS), "the second time it is there");
    }
  }

  @Test
  void aPageOfKeysIsAskedForAtOnce() throws Exception {
    try (SharedNode first = node();
        SharedNode second = node()) {
      first.cache.getAll(List.of("a", "b", "c"));
      first.awaitStored(3);
      long before = commands("get");
      Map<String, String> found = second.cache.getAll(List.of("a", "b", "c", "d"));
      assertEquals(Map.of("a", "value of a", "b", "value of b", "c", "value of c", "d", "value of d"), found);
      assertEquals(1, second.loads.get());
      assertTrue(commands("get") - before >= 4);
    }
  }

  private long commands(String name) {
    String stats = new String((byte[]) redis.call("INFO", "commandstats"), UTF_8);
    return stats
        .lines()
        .filter(line -> line.startsWith("cmdstat_" + name + ":"))
        .mapToLong(line -> Long.parseLong(line.replaceAll(".*:calls=([0-9]+),.*", "$1")))
        .sum();
  }

  @Test
  void aCacheWithoutFilesIsSharedToo() throws Exception {
    TestDef inMemory = FLEET.withDiskLimit(-1);
    try (SharedNode first = node(SharedNode.config(redis.address()), inMemory);
        SharedNode second = node(SharedNode.config(redis.address()), inMemory)) {
      first.cache.get("a");
      first.awaitStored(1);
      assertEquals("value of a", second.cache.get("a"));
      assertEquals(0, second.loads.get());
      assertNull(second.opener.files.get("fleet 1"), "it has no files");
    }
  }

  @Test
  void aFlushVoidsTheValuesOnAllNodesWithinFiveSeconds() throws Exception {
    try (SharedNode first = node();
        SharedNode second = node();
        SharedNode third = node()) {
      first.cache.get("a");
      first.awaitStored(1);
      long start = System.nanoTime();
      second.cache.invalidateAll();
      second.cache.get("a");
      assertEquals(1, second.loads.get(), "at once on the node itself");
      second.awaitStored(1);
      assertEquals(2, redis.names("site", "fleet").size());
      SharedNode.await(() -> redis.names("site", "generation").size() == 2, "the generations are not on the server");
      third.shared().flush("fleet"); // returns once this node has read the generations
      assertTrue(System.nanoTime() - start < 5_000_000_000L);
      third.cache.get("a");
      assertEquals(1, third.loads.get());
    }
  }

  @Test
  void anotherNodeServesNoOlderValueFiveSecondsAfterAFlush() throws Exception {
    int keys = 120;
    try (SharedNode first = node();
        SharedNode second = node()) {
      for (int i = 0; i < keys; i++) {
        first.cache.get("key " + i);
      }
      first.awaitStored(keys);
      assertEquals("value of key 0", second.cache.getIfPresent("key 0"));
      long start = System.nanoTime();
      first.shared().flush(null);
      int last = 0;
      for (int i = 1; i < keys; i++) { // each key once, because a hit stays in memory
        if (second.cache.getIfPresent("key " + i) != null) {
          last = i;
          assertTrue(System.nanoTime() - start < 5_000_000_000L);
        }
        Thread.sleep(50);
      }
      assertTrue(last < keys / 2, "key " + last + " was served after the flush");
    }
  }

  @Test
  void anInvalidatedKeyIsNotAskedForAgainAndIsDeleted() throws Exception {
    try (SharedNode first = node();
        SharedNode second = node()) {
      first.cache.get("a");
      first.awaitStored(1);
      second.cache.invalidate("a");
      assertEquals("value of a", second.cache.get("a"));
      assertEquals(1, second.loads.get());
      SharedNode.await(() -> redis.names("site", "fleet").isEmpty(), "the value is still on the server");
    }
  }

  @Test
  void versionsNamespacesAndPlainAndSealedValuesAreNotMixed() throws Exception {
    Config staging = SharedNode.config(redis.address());
    staging.setString("cache", null, "refdbSharedNamespace", "staging");
    try (SharedNode first = node();
        SharedNode other = node(SharedNode.config(redis.address()), FLEET.withVersion(2));
        SharedNode copy = node(staging, FLEET);
        SharedNode withKey = node(sealed(key(1)), FLEET)) {
      first.cache.get("a");
      first.awaitStored(1);
      for (SharedNode node : List.of(other, copy, withKey)) {
        node.cache.get("a");
        assertEquals(1, node.loads.get());
      }
      assertEquals(1, withKey.count(Event.REFUSED_BAD), "a plain value where there is a key");
    }
  }

  @Test
  void keysRotate() throws Exception {
    try (SharedNode old = node(sealed(key(1)), FLEET);
        SharedNode between = node(sealed(key(2), key(1)), FLEET)) {
      old.cache.get("a");
      old.awaitStored(1);
      between.cache.get("a");
      assertEquals(0, between.loads.get(), "the old key opens still");
      between.cache.get("b");
      between.awaitStored(1);
      old.cache.get("b");
      assertEquals(1, old.count(Event.REFUSED_KEY), "a node that has not got the new key yet");
      assertEquals(1, between.count(Event.STORED));
    }
  }

  /** Tries what somebody with write access to the server can do to values: move, cut, forge, empty and replace them. */
  @Test
  void forgedMovedAndCutValuesAreMisses() throws Exception {
    Config config = sealed(key(1));
    try (SharedNode first = node(config, FLEET)) {
      first.cache.getAll(List.of("a", "b", "c", "d", "e"));
      first.awaitStored(5);
      List<String> names = redis.names("site", "fleet");
      byte[][] entries = new byte[5][];
      for (int i = 0; i < 5; i++) {
        entries[i] = (byte[]) redis.call("GET", names.get(i));
      }
      set(names.get(0), entries[1]); // moved
      set(names.get(1), Arrays.copyOf(entries[1], entries[1].length - 1)); // cut
      entries[2][entries[2].length - 20] ^= 1; // forged
      set(names.get(2), entries[2]);
      set(names.get(3), new byte[0]);
      redis.call("SET", names.get(4), "a text that someone wrote there");
      try (SharedNode second = node(config, FLEET)) {
        for (String key : List.of("a", "b", "c", "d", "e")) {
          assertEquals("value of " + key, second.cache.get(key));
        }
        assertEquals(5, second.loads.get());
        assertEquals(0, second.count(Event.HITS));
        assertEquals(5, second.count(Event.REFUSED_BAD) + second.count(Event.REFUSED_KEY));
        SharedNode.await(() -> second.count(Event.STORED) == 5, "the good values take their places");
      }
    }
  }

  /** The length that the server announces is not trusted, because memory would otherwise be reserved for it. */
  @Test
  void aGiantValueIsAMiss() throws Exception {
    try (SharedNode first = node();
        SharedNode second = node()) {
      first.cache.get("a");
      first.awaitStored(1);
      redis.call("SETRANGE", redis.names("site", "fleet").getFirst(), "3000000", "x");
      assertEquals("value of a", second.cache.get("a"));
      assertEquals(1, second.loads.get());
      assertEquals(1, second.count(Event.FAILED) + second.count(Event.LATE));
      second.awaitInUse();
    }
  }

  private void set(String name, byte[] value) {
    redis.call("SET", name.getBytes(UTF_8), value);
  }

  @Test
  void valuesAndKeysAreNotReadableWhereThereIsAKey() throws Exception {
    try (SharedNode plain = node();
        SharedNode sealed = node(sealed(key(1)), TestDef.named("fleet").withVersion(3))) {
      plain.cache.get("abracadabra");
      plain.awaitStored(1);
      String plainName = redis.names("site", "fleet").getFirst();
      assertTrue(bytes(plainName).contains("value of abracadabra"));
      redis.call("DEL", plainName);
      sealed.cache.get("abracadabra");
      sealed.awaitStored(1);
      assertFalse(bytes(redis.names("site", "fleet").getFirst()).contains("abracadabra"));
    }
  }

  private String bytes(String name) {
    return name + new String((byte[]) redis.call("GET", name), UTF_8);
  }

  @Test
  void aValueThatDoesNotDeserialiseIsAMissAndIsDeleted() throws Exception {
    try (SharedNode first = node(SharedNode.config(redis.address()), FLEET);
        SharedNode second = node()) {
      first.cache.get("a");
      first.awaitStored(1);
      // The entry is intact, but the serialiser refuses its value, as it may refuse one that a later Gerrit wrote in
      // the same version.
      TextSerializer.broken = true;
      try {
        assertNull(second.cache.getIfPresent("a"));
      } finally {
        TextSerializer.broken = false;
      }
      assertEquals(1, second.count(Event.REFUSED_CONTENT));
      SharedNode.await(() -> redis.names("site", "fleet").isEmpty(), "it is still there");
    }
  }

  @Test
  void entriesExpireAndLargeOnesAreNotShared() throws Exception {
    Config config = SharedNode.config(redis.address());
    config.setString("cache", null, "refdbSharedTtl", "1 hour");
    config.setInt("cache", null, "refdbSharedMaxValue", 100);
    try (SharedNode first = new SharedNode(site, config, FLEET, key -> key.repeat(10)).awaitInUse()) {
      first.cache.get("a");
      first.awaitStored(1);
      long millis = (Long) redis.call("PTTL", redis.names("site", "fleet").getFirst());
      assertTrue(millis > 3_500_000 && millis <= 3_600_000, "" + millis);
      first.cache.get("twelve chars");
      SharedNode.await(() -> first.count(Event.TOO_LARGE) == 1, "it is offered");
    }
  }

  /** With no room in memory and no files, gets ask the server: what was invalidated must not come from there. */
  @Test
  void noValueFromBeforeAnInvalidationOrAFlushComesBack() throws Exception {
    AtomicInteger[] truth = new AtomicInteger[8];
    Arrays.setAll(truth, i -> new AtomicInteger());
    Config config = SharedNode.config(redis.address());
    config.setInt("cache", "fleet", "memoryLimit", 0);
    TestDef inMemory = FLEET.withDiskLimit(-1);
    try (SharedNode node =
            new SharedNode(site, config, inMemory, key -> "" + truth[Integer.parseInt(key)].get()).awaitInUse();
        ExecutorService pool = Executors.newFixedThreadPool(4)) {
      // After a flush nothing is shared until the server has confirmed it, which on a busy machine can fill a round.
      SharedNode.await(
          () -> {
            stress(node, pool, truth);
            return node.count(Event.HITS) > 100;
          },
          "the shared cache was hardly hit");
    }
  }

  private static void stress(SharedNode node, ExecutorService pool, AtomicInteger[] truth) {
    List<Future<?>> threads = new ArrayList<>();
    for (int t = 0; t < 4; t++) {
      threads.add(pool.submit(() -> InvalidationTest.stress(node.cache, truth, 5_000)));
    }
    for (Future<?> thread : threads) {
      Futures.getUnchecked(thread);
    }
  }

  @Test
  void secretsAndUnknownCachesAreNotShared() throws Exception {
    Config config = SharedNode.config(redis.address());
    config.setBoolean("cache", "web_sessions", "shared", true);
    config.setBoolean("cache", "external_ids_map", "shared", true);
    for (String name : List.of("web_sessions", "oauth_tokens", "external_ids_map", "plugin.cache")) {
      try (SharedNode node = node(config, TestDef.named(name))) {
        node.cache.put("cookie", "session");
        node.cache.get("other");
        assertNull(((DiskCache<?, ?>) node.cache).disk().shared(), name);
      }
    }
    assertEquals(List.of("refdb:site:generation:"), redis.names("site", "generation"));
  }

  /** A cache whose files cannot be opened must not look like one that is configured without files. */
  @Test
  void theStatisticsTellACacheThatFailsFromOneWithoutFiles() {
    Config without = SharedNode.config(redis.address());
    without.setLong("cache", "fleet", "diskLimit", 0);
    try (SharedNode fails = new SharedNode(site, SharedNode.config(redis.address()), TestDef.named("fleet"), key -> key);
        SharedNode hasNone = new SharedNode(site, without, TestDef.named("fleet"), key -> key)) {
      assertTrue(CacheAdmin.of(fails.cache).orElseThrow().stat().text().contains("in memory only, see error_log"));
      assertFalse(CacheAdmin.of(hasNone.cache).orElseThrow().stat().text().contains("error_log"));
    }
  }
}

package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.refdb.gerrit.cache.shared.Counts.Event;
import org.refdb.gerrit.cache.shared.FaultyProxy;

/** Whatever happens to the server of the shared cache, requests get the right values, soon, and no exception. */
class SharedTroubleTest extends WithRedis {
  /**
   * The milliseconds for which the budget of a thread allows one late answer, because budget and deadline are equal
   * here.
   */
  private static final long BUDGET_MILLIS = 100;

  private final AtomicInteger next = new AtomicInteger();

  private SharedNode node(String address) {
    Config config = SharedNode.config(address);
    config.setString("cache", null, "refdbSharedDeadline", "20 ms");
    config.setString("cache", null, "refdbSharedBudget", "20 ms");
    return new SharedNode(site, config, TestDef.named("fleet"), key -> "value of " + key).awaitInUse();
  }

  /** Gets this number of new keys, asserts that the values are right, and returns the milliseconds that this took. */
  private long millisOfGets(SharedNode node, int gets) throws Exception {
    long start = System.nanoTime();
    for (int i = 0; i < gets; i++) {
      String key = "key " + next.incrementAndGet();
      assertEquals("value of " + key, node.cache.get(key));
    }
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
  }

  /**
   * Gets this number of new keys while the server or the way to it fails. Counts the requests that were waited for in
   * vain, because a busy machine makes gets slow that wait for nobody.
   */
  private void assertWithinBudget(SharedNode node, int gets) throws Exception {
    long before = node.count(Event.LATE);
    long millis = millisOfGets(node, gets);
    long late = node.count(Event.LATE) - before;
    assertTrue(late <= 2 + millis / BUDGET_MILLIS, late + " late answers in " + millis + " ms");
  }

  @Test
  void aStoppedServerCostsItsBudgetAtMostAndThenNothing() throws Exception {
    try (SharedNode node = node(redis.address())) {
      millisOfGets(node, 50);
      redis.pause();
      try {
        assertWithinBudget(node, 50);
        SharedNode.await(() -> !node.shared().isInUse(), "it is still asked");
        long asked = node.count(Event.LATE) + node.count(Event.FAILED);
        millisOfGets(node, 500);
        assertEquals(asked, node.count(Event.LATE) + node.count(Event.FAILED), "requests ask it no more");
      } finally {
        redis.resume();
      }
      node.awaitInUse();
      long hits = node.count(Event.STORED);
      node.cache.get("after");
      node.awaitStored(hits + 1);
    }
  }

  @Test
  void aNameThatLeadsToNoStringIsReplacedAndCostsNoOtherKeys() throws Exception {
    try (SharedNode first = new SharedNode(
            site, SharedNode.config(redis.address()), TestDef.named("fleet"), key -> "value of " + key).awaitInUse();
        SharedNode second = new SharedNode(
            site, SharedNode.config(redis.address()), TestDef.named("fleet"), key -> "value of " + key).awaitInUse()) {
      first.cache.get("a");
      first.awaitStored(1);
      String name = redis.names("site", "fleet").getFirst();
      redis.call("DEL", name);
      redis.call("LPUSH", name, "a list");
      assertEquals("value of a", second.cache.get("a"));
      assertEquals(1, second.count(Event.FAILED));
      assertEquals(0, second.shared().status().opened());
      second.awaitStored(1);
      assertTrue(redis.call("GET", name) instanceof byte[]);
    }
  }

  @Test
  void aKilledServerComesBackEmptyAndIsFilledAnew() throws Exception {
    try (SharedNode first = node(redis.address());
        SharedNode second = node(redis.address())) {
      first.cache.get("a");
      first.awaitStored(1);
      redis.kill();
      assertWithinBudget(second, 50);
      redis.start();
      first.awaitInUse();
      second.awaitInUse();
      int before = second.loads.get();
      second.cache.get("a");
      assertEquals(before + 1, second.loads.get());
      SharedNode.await(
          () -> {
            second.cache.getUnchecked("key " + next.incrementAndGet());
            return !redis.names("site", "fleet").isEmpty();
          },
          "nothing is stored");
    }
  }

  /** Regression: the deletion was dropped, and a server that was restarted got the void value again. */
  @Test
  void aValueThatIsVoidedWhileTheServerFailsIsNotFoundAfterwards() throws Exception {
    try (SharedNode node = node(redis.address())) {
      node.cache.get("a");
      node.awaitStored(1);
      redis.pause();
      try {
        voidWhileItFails(node, "a");
      } finally {
        redis.resume();
      }
      node.awaitInUse();
      node.shared().flush("other"); // waits until the server has the generations of this node
    }
    try (SharedNode restarted = node(redis.address())) {
      restarted.cache.get("a");
      assertEquals(1, restarted.loads.get());
    }
  }

  @Test
  void valuesThatAreVoidedJustBeforeAStopAreNotFoundAfterwards() throws Exception {
    List<String> keys = IntStream.range(0, 300).mapToObj(i -> "key " + i).toList();
    try (SharedNode node = node(redis.address())) {
      node.cache.getAll(keys);
      node.awaitStored(keys.size());
      keys.forEach(node.cache::invalidate);
    }
    try (SharedNode restarted = node(redis.address())) {
      restarted.cache.getAll(keys);
      assertEquals(keys.size(), restarted.loads.get());
    }
  }

  @Test
  void aServerThatAnswersAgainLearnsOfVoidedValuesBeforeAStop() throws Exception {
    try (SharedNode node = node(redis.address())) {
      node.cache.get("a");
      node.awaitStored(1);
      redis.pause();
      try {
        voidWhileItFails(node, "a");
      } finally {
        redis.resume();
      }
      SharedNode.await(() -> node.shared().isInUse(), "it is not asked again");
    }
    try (SharedNode restarted = node(redis.address())) {
      restarted.cache.get("a");
      assertEquals(1, restarted.loads.get());
    }
  }

  /** Voids the value of a key once the server, which must not answer, is left alone. */
  private void voidWhileItFails(SharedNode node, String key) {
    SharedNode.await(
        () -> {
          node.cache.getUnchecked("key " + next.incrementAndGet());
          return !node.shared().isInUse();
        },
        "it is still asked");
    node.cache.invalidate(key);
    SharedNode.await(() -> node.shared().waiting().entries() == 0, "the deletion waits");
  }

  @Test
  void wantOfMemoryDoesNotEndTheThreadThatReadsTheGenerations() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    try (SharedNode node = node(redis.address())) {
      node.shared()
          .serveWith(
              request -> {
                if (asked.getAndIncrement() == 0) {
                  throw new OutOfMemoryError("planted");
                }
              });
      SharedNode.await(() -> asked.get() > 0, "nothing is asked");
      node.shared().flush("fleet"); // throws if the server is not told
    }
  }

  @ParameterizedTest
  @EnumSource(FaultyProxy.Fault.class)
  void aBadWayToTheServerCostsLittleAndBringsNoWrongValue(FaultyProxy.Fault fault) throws Exception {
    try (FaultyProxy proxy = new FaultyProxy(redis.port());
        SharedNode other = node(redis.address());
        SharedNode node = node(proxy.address())) {
      for (int i = 0; i < 100; i++) {
        other.cache.get("key " + i);
      }
      other.awaitStored(100);
      millisOfGets(node, 10);
      proxy.set(fault);
      assertWithinBudget(node, 100);
      proxy.set(FaultyProxy.Fault.NONE);
      node.awaitInUse();
      assertTrue(node.count(Event.HITS) > 0 || fault != FaultyProxy.Fault.NONE);
    }
  }

  @Test
  void aFullServerRefusesWithoutAnError() throws Exception {
    try (SharedNode node = node(redis.address())) {
      redis.call("CONFIG", "SET", "maxmemory-policy", "noeviction");
      redis.call("CONFIG", "SET", "maxmemory", "1");
      assertEquals("value of a", node.cache.get("a"));
      SharedNode.await(() -> node.count(Event.NOT_STORED) == 1, "it is stored");
    }
  }

  @Test
  void aUserWithoutRightsIsAMiss() throws Exception {
    redis.call("ACL", "SETUSER", "gerrit", "on", ">secret", "~refdb:site:*", "+get", "+set", "+del", "+ping");
    redis.call("ACL", "SETUSER", "default", "resetpass", "nopass");
    Config config = SharedNode.config(redis.address());
    config.setString("cache", null, "refdbSharedUser", "gerrit");
    config.setString("cache", null, "refdbSharedPassword", "secret");
    TestDef fleet = TestDef.named("fleet");
    try (SharedNode node = new SharedNode(site, config, fleet, key -> "value of " + key).awaitInUse()) {
      node.cache.get("a");
      node.awaitStored(1); // the commands of the guide suffice
      node.cache.invalidate("a");
      SharedNode.await(() -> redis.names("site", "fleet").isEmpty(), "the user may not delete");
      node.shared().flush(null);
      redis.call("ACL", "SETUSER", "gerrit", "-get");
      assertEquals("value of b", node.cache.get("b"));
      SharedNode.await(() -> !node.shared().isInUse(), "it is in use without rights");
    }
  }

  /** Many threads at once get their values although the server never answers, and what waits in memory is bounded. */
  @Test
  void aServerThatNeverAnswersTakesNeitherTimeNorMemoryOfManyThreads() throws Exception {
    Config config = SharedNode.config(redis.address());
    config.setString("cache", null, "refdbSharedDeadline", "2 ms");
    config.setString("cache", null, "refdbSharedBudget", "20 ms");
    config.setInt("cache", null, "refdbSharedQueueEntries", 100);
    String value = "x".repeat(10_000);
    try (SharedNode node = new SharedNode(site, config, TestDef.named("fleet").withWeight(1), key -> value);
        ExecutorService pool = Executors.newFixedThreadPool(64)) {
      SharedNode.await(() -> node.shared().isInUse(), "not in use");
      redis.pause();
      try {
        List<Future<?>> threads = new ArrayList<>();
        for (int t = 0; t < 64; t++) {
          threads.add(pool.submit(() -> {
            for (int i = 0; i < 200; i++) {
              assertEquals(value, node.cache.get("key " + next.incrementAndGet()));
            }
            return null;
          }));
        }
        for (Future<?> thread : threads) {
          thread.get(60, TimeUnit.SECONDS);
        }
        assertTrue(node.shared().waiting().entries() <= 100, "" + node.shared().waiting());
        assertEquals(0, node.shared().waiting().answerBytes());
      } finally {
        redis.resume();
      }
      assertEquals(0, node.count(Event.HITS));
    }
  }

  /** Regression: answers after one that was refused counted for ever, until no answer had room in memory. */
  @Test
  void whatComesAfterARefusedAnswerTakesNoMemory() throws Exception {
    try (SharedNode node = node(redis.address())) {
      for (String cache : new String[] {"", "fleet"}) {
        SharedNode.await(() -> redis.names("site", "generation").size() == 2, "the generations are not stored");
        String name = "refdb:site:generation:" + cache;
        redis.call("DEL", name);
        redis.call("LPUSH", name, "no generation");
        SharedNode.await(() -> !node.shared().isInUse(), "a wrong type is taken for a generation");
        redis.call("DEL", name);
        node.awaitInUse();
        SharedNode.await(() -> node.shared().waiting().answerBytes() == 0, "answers are kept for nobody");
      }
    }
  }

  /** Only the cache that the administrator shares reaches the server, beside the generations. */
  @Test
  void onlyTheNamedCacheReachesTheServer() throws Exception {
    try (SharedNode node = node(redis.address())) {
      node.cache.get("a");
      node.awaitStored(1);
      assertEquals(1, redis.names("site", "fleet").size());
      List<?> all = (List<?>) redis.call("KEYS", "*");
      for (Object name : all) {
        String text = new String((byte[]) name, UTF_8);
        assertTrue(text.startsWith("refdb:site:fleet:") || text.startsWith("refdb:site:generation:"), text);
      }
      assertFalse(all.isEmpty());
    }
  }
}

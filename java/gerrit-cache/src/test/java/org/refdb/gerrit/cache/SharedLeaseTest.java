package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.cache.shared.Counts.Event;

/** Nodes that need one value at the same time compute it once, and wait no longer than a load takes on average. */
class SharedLeaseTest extends WithRedis {
  private static final int MEAN_MILLIS = 300;

  /** What a busy machine may add. */
  private static final long SLACK_MILLIS = 250;

  private final ExecutorService pool = Executors.newCachedThreadPool();

  @AfterEach
  void stop() {
    pool.shutdownNow();
  }

  /** A loader, most of whose values take less than its average. */
  private static String slowly(String key) {
    sleep(key.startsWith("lesson") ? MEAN_MILLIS : MEAN_MILLIS / 2);
    return "value of " + key;
  }

  private static void sleep(long millis) {
    try {
      TimeUnit.MILLISECONDS.sleep(millis);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private SharedNode node(boolean hasLeases, Function<String, String> loader) {
    Config config = SharedNode.config(redis.address());
    config.setBoolean("cache", null, "refdbSharedLease", hasLeases);
    config.setString("cache", null, "refdbSharedDeadline", "20 ms");
    config.setString("cache", null, "refdbSharedBudget", "50 ms");
    return new SharedNode(site, config, TestDef.named("fleet"), loader).awaitInUse();
  }

  /** Lets a node learn how long its loads take. */
  private static SharedNode taught(SharedNode node) throws Exception {
    for (int i = 0; i < 4; i++) {
      node.cache.get("lesson of " + System.identityHashCode(node) + " " + i);
    }
    return node;
  }

  private Future<Long> get(SharedNode node, String key) {
    return pool.submit(
        () -> {
          long start = System.nanoTime();
          assertEquals("value of " + key, node.cache.get(key));
          return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        });
  }

  private int loadsOfTen(SharedNode first, SharedNode second) throws Exception {
    int before = first.loads.get() + second.loads.get();
    for (int i = 0; i < 10; i++) {
      Future<Long> one = get(first, "key " + i);
      get(second, "key " + i).get();
      one.get();
    }
    return first.loads.get() + second.loads.get() - before;
  }

  @Test
  void twoNodesComputeAValueOnce() throws Exception {
    try (SharedNode first = taught(node(true, SharedLeaseTest::slowly));
        SharedNode second = taught(node(true, SharedLeaseTest::slowly))) {
      int loads = loadsOfTen(first, second);
      assertTrue(loads <= 12, loads + " loads of ten values");
      assertTrue(first.count(Event.WAITED) + second.count(Event.WAITED) >= 8, "they wait for each other");
    }
  }

  @Test
  void nobodyWaitsUnlessTheSiteWantsItOrWhereLoadsAreShort() throws Exception {
    try (SharedNode first = taught(node(false, SharedLeaseTest::slowly));
        SharedNode second = taught(node(false, SharedLeaseTest::slowly));
        SharedNode fast = taught(node(true, key -> "value of " + key))) {
      int loads = loadsOfTen(first, second);
      assertTrue(loads >= 18, loads + " loads of ten values");
      assertEquals(0, first.count(Event.WAITED) + second.count(Event.WAITED));
      fast.cache.get("a");
      assertTrue(redis.names("site", "fleet").stream().noneMatch(name -> name.endsWith("+")), "a lease");
    }
  }

  @Test
  void aDeadOrSlowOwnerKeepsAnotherWaitingForAnAverageLoadAtMost() throws Exception {
    CountDownLatch never = new CountDownLatch(1);
    Function<String, String> stuck =
        key -> {
          if (key.equals("a")) {
            try {
              never.await();
            } catch (InterruptedException e) {
              throw new IllegalStateException(e);
            }
          }
          return slowly(key);
        };
    try (SharedNode owner = taught(node(true, stuck));
        SharedNode other = taught(node(true, SharedLeaseTest::slowly))) {
      Future<Long> first = get(owner, "a");
      SharedNode.await(() -> hasLease(), "the owner has no lease");
      long millis = get(other, "a").get();
      assertTrue(millis >= MEAN_MILLIS, "it waited: " + millis + " ms");
      assertTrue(millis <= MEAN_MILLIS + MEAN_MILLIS / 2 + SLACK_MILLIS, "a wait and a load: " + millis + " ms");
      assertEquals(1, other.count(Event.WAITED));
      never.countDown();
      first.get();
    }
  }

  private boolean hasLease() {
    return redis.names("site", "fleet").stream().anyMatch(name -> name.endsWith("+"));
  }

  /**
   * A node waits no longer than a load takes on average even if the lease never ends, as after a change of the server's
   * clock.
   */
  @Test
  void aLeaseThatDoesNotEndKeepsNobodyLonger() throws Exception {
    try (SharedNode node = taught(node(true, SharedLeaseTest::slowly))) {
      Future<Long> first = get(node, "a");
      SharedNode.await(() -> hasLease(), "there is no lease");
      redis.names("site", "fleet").stream().filter(name -> name.endsWith("+")).forEach(
          name -> redis.call("PERSIST", name));
      first.get();
      node.awaitStored(5);
      redis.names("site", "fleet").stream().filter(name -> !name.endsWith("+")).forEach(name -> redis.call("DEL", name));
      try (SharedNode other = taught(node(true, SharedLeaseTest::slowly))) {
        long millis = get(other, "a").get();
        assertTrue(millis <= MEAN_MILLIS + MEAN_MILLIS / 2 + SLACK_MILLIS, millis + " ms");
        assertEquals(1, other.count(Event.WAITED));
      }
    }
  }

  @Test
  void aServerThatStopsAnsweringEndsTheWait() throws Exception {
    try (SharedNode owner = taught(node(true, key -> key.equals("a") ? slowly(slowlyKey(key)) : slowly(key)));
        SharedNode other = taught(node(true, SharedLeaseTest::slowly))) {
      Future<Long> first = get(owner, "a");
      SharedNode.await(() -> hasLease(), "the owner has no lease");
      Future<Long> second = get(other, "a");
      SharedNode.await(() -> other.count(Event.WAITED) == 1, "it does not wait");
      redis.pause();
      try {
        long millis = second.get();
        assertTrue(millis <= MEAN_MILLIS + MEAN_MILLIS / 2 + SLACK_MILLIS, millis + " ms");
        first.get();
      } finally {
        redis.resume();
      }
    }
  }

  private static String slowlyKey(String key) {
    sleep(4 * MEAN_MILLIS);
    return key;
  }

  @Test
  void aLoadThatFailsLetsTheNextNodeComputeAtOnce() throws Exception {
    Function<String, String> failing =
        key -> {
          slowly(key);
          if (key.equals("a")) {
            throw new IllegalArgumentException("no value");
          }
          return "value of " + key;
        };
    int patient = 5_000;
    try (SharedNode owner = node(true, failing);
        SharedNode other = node(true, key -> "value of " + key)) {
      owner.teach(patient);
      other.teach(patient);
      Future<String> first = pool.submit(() -> owner.cache.get("a"));
      SharedNode.await(() -> hasLease(), "the owner has no lease");
      long millis = get(other, "a").get();
      assertTrue(millis < patient / 2, millis + " ms");
      assertThrows(ExecutionException.class, first::get);
    }
  }

  @Test
  void manyThreadsOfManyNodesComputeOnce() throws Exception {
    List<SharedNode> nodes = new ArrayList<>();
    try {
      for (int i = 0; i < 4; i++) {
        nodes.add(taught(node(true, SharedLeaseTest::slowly)));
      }
      // One load on a machine that is not busy, four without leases. A waiter that is not scheduled in time computes.
      List<Integer> loads = new ArrayList<>();
      do {
        loads.add(loadsOfAll(nodes, "key " + loads.size()));
      } while (loads.getLast() > 2 && loads.size() < 5);
      assertTrue(loads.getLast() <= 2, loads + " loads");
    } finally {
      nodes.forEach(SharedNode::close);
    }
  }

  /** Returns how many loads it takes until each of four threads of each node has the value. */
  private int loadsOfAll(List<SharedNode> nodes, String key) throws Exception {
    int before = nodes.stream().mapToInt(node -> node.loads.get()).sum();
    List<Future<Long>> gets = new ArrayList<>();
    for (SharedNode node : nodes) {
      for (int t = 0; t < 4; t++) {
        gets.add(get(node, key));
      }
    }
    for (Future<Long> each : gets) {
      each.get();
    }
    return nodes.stream().mapToInt(node -> node.loads.get()).sum() - before;
  }

  /** A lease may have ended during a long load, and be another node's when the load fails. */
  @Test
  void theLeaseOfAnotherNodeIsNotEnded() throws Exception {
    AtomicReference<String> lease = new AtomicReference<>();
    Function<String, String> failing =
        key -> {
          if (key.startsWith("lesson")) {
            return slowly(key);
          }
          List<String> leases = redis.names("site", "fleet").stream().filter(name -> name.endsWith("+")).toList();
          assertEquals(1, leases.size());
          lease.set(leases.getFirst());
          redis.call("SET", lease.get(), "another node's");
          throw new IllegalStateException("fails");
        };
    try (SharedNode node = taught(node(true, failing))) {
      assertThrows(Exception.class, () -> node.cache.get("k"));
      node.cache.get("lesson that is offered after that");
      node.awaitStored(5);
      assertNotNull(redis.call("GET", lease.get()));
    }
  }
}

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
  private int heldKeys;

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
    config.setString("cache", null, "refdbSharedDeadline", "100 ms");
    config.setString("cache", null, "refdbSharedBudget", "2 s");
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
    Gate gate = new Gate();
    try (SharedNode owner = taught(node(true, gate));
        SharedNode other = taught(node(true, SharedLeaseTest::slowly))) {
      Held held = held(owner);
      long millis = get(other, held.key()).get();
      assertTrue(millis >= MEAN_MILLIS, "it waited: " + millis + " ms");
      assertTrue(millis <= MEAN_MILLIS + MEAN_MILLIS / 2 + SLACK_MILLIS, "a wait and a load: " + millis + " ms");
      assertEquals(1, other.count(Event.WAITED));
      gate.open();
      held.load().get();
    }
  }

  /** Loads the values of keys that begin with "held", which last until the gate opens. */
  private static final class Gate implements Function<String, String> {
    private final CountDownLatch opened = new CountDownLatch(1);

    @Override
    public String apply(String key) {
      if (key.startsWith("held")) {
        try {
          opened.await();
        } catch (InterruptedException e) {
          throw new IllegalStateException(e);
        }
        return "value of " + key;
      }
      return slowly(key);
    }

    void open() {
      opened.countDown();
    }
  }

  /** A load that lasts until its gate opens. */
  private record Held(String key, Future<Long> load) {}

  /** Starts loads that last until a gate opens, until one of them has a lease, and returns that one. */
  private Held held(SharedNode node) {
    // A load that starts while the server is late, as on a busy machine, has no lease.
    for (int i = 0; i < 20; i++) {
      String key = "held " + heldKeys++;
      Held held = new Held(key, get(node, key));
      if (SharedNode.comesTrue(this::hasLease, 5)) {
        return held;
      }
    }
    throw new AssertionError("no load has a lease");
  }

  private boolean hasLease() {
    return !leases().isEmpty();
  }

  private List<String> leases() {
    return redis.names("site", "fleet").stream().filter(name -> name.endsWith("+")).toList();
  }

  /**
   * A node waits no longer than a load takes on average even if the lease never ends, as after a change of the server's
   * clock.
   */
  @Test
  void aLeaseThatDoesNotEndKeepsNobodyLonger() throws Exception {
    Gate gate = new Gate();
    try (SharedNode node = taught(node(true, gate))) {
      Held held = held(node);
      while (leases().stream().noneMatch(name -> redis.call("PERSIST", name).equals(1L))) {
        held = held(node); // the lease ended before it was changed
      }
      try (SharedNode other = taught(node(true, SharedLeaseTest::slowly))) {
        long millis = get(other, held.key()).get();
        assertTrue(millis <= MEAN_MILLIS + MEAN_MILLIS / 2 + SLACK_MILLIS, millis + " ms");
        assertEquals(1, other.count(Event.WAITED));
      }
      gate.open();
      held.load().get();
    }
  }

  @Test
  void aServerThatStopsAnsweringEndsTheWait() throws Exception {
    Gate gate = new Gate();
    try (SharedNode owner = taught(node(true, gate));
        SharedNode other = taught(node(true, SharedLeaseTest::slowly))) {
      Held held = held(owner);
      Future<Long> second = get(other, held.key());
      SharedNode.await(() -> other.count(Event.WAITED) == 1, "it does not wait");
      redis.pause();
      try {
        long millis = second.get();
        assertTrue(millis <= MEAN_MILLIS + MEAN_MILLIS / 2 + SLACK_MILLIS, millis + " ms");
        gate.open();
        held.load().get();
      } finally {
        redis.resume();
      }
    }
  }

  @Test
  void aLoadThatFailsLetsTheNextNodeComputeAtOnce() throws Exception {
    Gate gate = new Gate();
    Function<String, String> failing =
        key -> {
          gate.apply(key);
          throw new IllegalArgumentException("no value");
        };
    int patient = 5_000;
    try (SharedNode owner = node(true, failing);
        SharedNode other = node(true, key -> "value of " + key)) {
      owner.teach(patient);
      other.teach(patient);
      Held held = held(owner);
      Future<Long> second = get(other, held.key());
      SharedNode.await(() -> other.count(Event.WAITED) == 1, "it does not wait");
      gate.open();
      long millis = second.get();
      assertTrue(millis < patient / 2, millis + " ms");
      assertThrows(ExecutionException.class, held.load()::get);
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
          leases().forEach(
              name -> {
                lease.set(name);
                redis.call("SET", name, "another node's");
              });
          throw new IllegalStateException("fails");
        };
    try (SharedNode node = taught(node(true, failing))) {
      for (int i = 0; i < 20 && lease.get() == null; i++) { // on a busy machine a load may have no lease
        String key = "k" + i;
        assertThrows(Exception.class, () -> node.cache.get(key));
      }
      node.cache.get("lesson that is offered after that");
      node.awaitStored(5);
      assertNotNull(redis.call("GET", lease.get()));
    }
  }
}

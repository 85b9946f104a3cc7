package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gerrit.server.cache.serialize.CacheSerializer;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.refdb.gerrit.cache.shared.Counts.Event;

/** Flushes of the shared cache hold on all nodes, whatever the clocks and the server say. */
class SharedFlushTest extends WithRedis {
  private static final String GENERATION = "refdb:site:generation:fleet";

  /** The time to wait for all nodes to follow a flush, which takes them five seconds at most. */
  private static final Duration FOLLOW = Duration.ofMillis(5_500);

  private final AtomicReference<String> truth = new AtomicReference<>("old");

  private SharedNode node() {
    return node(SharedNode.config(redis.address()), key -> truth.get());
  }

  private SharedNode node(Config config, Function<String, String> loader) {
    return new SharedNode(site, config, TestDef.named("fleet"), loader).awaitInUse();
  }

  private void set(String generation) {
    redis.call("SET", GENERATION, generation);
  }

  /**
   * The generation is ahead of the clocks, so that a node's flush raises it to the number after the last one that this
   * node has seen.
   */
  @Test
  void aFlushCountsAlthoughAnotherNodeHasJustFlushed() throws Exception {
    set(Long.toString(System.currentTimeMillis() + 3_600_000));
    try (SharedNode a = node();
        SharedNode b = node();
        SharedNode c = node()) {
      b.shared().flush("fleet");
      long stored = b.count(Event.STORED);
      b.cache.get("k");
      b.awaitStored(stored + 1);
      truth.set("new");
      a.shared().flush("fleet");
      Thread.sleep(FOLLOW.toMillis());
      assertEquals("new", c.cache.get("k"));
    }
  }

  @Test
  void aGenerationThatIsNoneIsReplaced() throws Exception {
    for (String damaged : new String[] {"damaged", "999999999999999999"}) {
      truth.set("old");
      try (SharedNode a = node();
          SharedNode b = node()) {
        a.cache.get(damaged);
        a.awaitStored(1);
        set(damaged);
        truth.set("new");
        a.shared().flush("fleet");
        Thread.sleep(FOLLOW.toMillis());
        assertEquals("new", b.cache.get(damaged));
        Object now = redis.call("GET", GENERATION);
        long ahead = Long.parseLong(new String((byte[]) now, US_ASCII)) - System.currentTimeMillis();
        assertEquals(0, ahead / Duration.ofDays(1).toMillis(), "the generation is a time of today");
      }
    }
  }

  /** The value of a key that was changed while it was loaded is not shared, so nobody needs to wait for it. */
  @Test
  @Timeout(60)
  void aLeaseEndsWithALoadWhoseKeyWasChanged() throws Exception {
    Config config = SharedNode.config(redis.address());
    config.setBoolean("cache", null, "refdbSharedLease", true);
    Function<String, String> slow =
        key -> {
          try {
            Thread.sleep(600);
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return key;
        };
    ExecutorService pool = Executors.newSingleThreadExecutor();
    try (SharedNode a = node(config, slow);
        SharedNode b = node(config, key -> "own")) {
      a.teach(4_500);
      b.teach(4_500);
      Future<String> load = pool.submit(() -> a.cache.get("k"));
      SharedNode.await(() -> redis.names("site", "fleet").stream().anyMatch(name -> name.endsWith("+")), "no lease");
      a.cache.invalidate("k");
      long start = System.nanoTime();
      b.cache.get("k");
      long waited = Duration.ofNanos(System.nanoTime() - start).toMillis();
      assertEquals(0, waited / 3_000, "waited " + waited + " ms for a load of 600 ms");
      load.get();
    } finally {
      pool.shutdownNow();
    }
  }

  /** Strings as bytes; runs something before it reads one. */
  private static final class Gate implements CacheSerializer<String> {
    volatile Runnable beforeRead = () -> {};

    @Override
    public byte[] serialize(String text) {
      return TextSerializer.INSTANCE.serialize(text);
    }

    @Override
    public String deserialize(byte[] bytes) {
      beforeRead.run();
      return TextSerializer.INSTANCE.deserialize(bytes);
    }
  }

  private static Runnable pause(CountDownLatch begun, CountDownLatch goesOn) {
    return () -> {
      begun.countDown();
      try {
        goesOn.await();
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    };
  }

  /** Previously, what the look-up found was stored after the flush, and served from then on. */
  @Test
  @Timeout(60)
  void whatALookUpFindsBesideAFlushIsNotKept() throws Exception {
    Gate gate = new Gate();
    TestDef def = TestDef.named("fleet").withSerializer(gate);
    CountDownLatch isPutting = new CountDownLatch(1);
    CountDownLatch mayPut = new CountDownLatch(1);
    CountDownLatch isReading = new CountDownLatch(1);
    CountDownLatch mayRead = new CountDownLatch(1);
    ExecutorService pool = Executors.newCachedThreadPool();
    try (SharedNode a = new SharedNode(site, SharedNode.config(redis.address()), def, key -> truth.get()).awaitInUse();
        SharedNode b = new SharedNode(site, SharedNode.config(redis.address()), def, key -> truth.get()).awaitInUse()) {
      for (int i = 0; i < 20; i++) {
        a.cache.get("k" + i);
      }
      a.awaitStored(20);
      truth.set("new");
      // The flush waits for this put after it has told some of the other keys that they change.
      b.opener.beforePut = pause(isPutting, mayPut);
      Future<?> put = pool.submit(() -> b.cache.put("any", "value"));
      isPutting.await();
      Thread flush = new Thread(b.cache::invalidateAll);
      flush.start();
      SharedNode.await(() -> flush.getState() == Thread.State.BLOCKED, "the flush does not wait");
      DiskTier<String, String> disk = ((DiskCache<String, String>) b.cache).disk();
      String key = IntStream.range(0, 20).mapToObj(i -> "k" + i).filter(k -> disk.lastChange(k) > 0).findFirst().get();
      gate.beforeRead = pause(isReading, mayRead);
      Future<String> lookUp = pool.submit(() -> b.cache.get(key));
      isReading.await();
      mayPut.countDown();
      put.get();
      flush.join();
      mayRead.countDown();
      assertEquals("old", lookUp.get(), "it began before the flush had ended");
      assertEquals("new", b.cache.get(key));
    } finally {
      mayPut.countDown();
      mayRead.countDown();
      pool.shutdownNow();
    }
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Requests that use a connection themselves leave at their deadline, and nobody gets the answer of another. */
class ClientTest {
  private static final long MILLI = 1_000_000;

  @TempDir Path folder;
  private RedisServer redis;
  private Client client;
  private final AtomicInteger failures = new AtomicInteger();

  @BeforeEach
  void start() throws Exception {
    redis = new RedisServer(folder);
    client = client(redis.address());
  }

  @AfterEach
  void stop() throws Exception {
    client.close();
    redis.close();
  }

  private Client client(String address) throws Exception {
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", address);
    SharedSettings settings = SharedSettings.of(config, folder);
    Client opened = new Client(settings.address(), new Connector(settings), cause -> failures.incrementAndGet());
    opened.refresh();
    awaitConnection(opened);
    return opened;
  }

  private static void awaitConnection(Client of) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    for (int good = 0; good < 4; ) { // each reader, and both again
      try (Call call = of.get(names("absent"))[0]) {
        assertNull(call.await(1_000 * MILLI));
        good++;
      } catch (RuntimeException e) {
        if (System.nanoTime() > end) {
          throw e;
        }
        Thread.sleep(10);
      }
    }
  }

  /** After an error while answers are decoded, such as a lack of memory, no answer counts as memory in use. */
  @Test
  void anErrorBeforeAllAnswersAreTakenGivesTheirMemoryBack() throws Exception {
    redis.call("SET", "a", "x".repeat(1_000));
    redis.call("SET", "b", "y".repeat(1_000));
    assertThrows(
        OutOfMemoryError.class,
        () -> {
          try (Calls calls = new Calls(client.get(names("a", "b")))) {
            calls.get(1).await(10_000 * MILLI);
            calls.get(0).await(10_000 * MILLI);
            assertTrue(client.answerBytes() >= 2_000);
            throw new OutOfMemoryError("a test");
          }
        });
    assertEquals(0, client.answerBytes());
  }

  private static byte[][] names(String... names) {
    byte[][] bytes = new byte[names.length][];
    for (int i = 0; i < names.length; i++) {
      bytes[i] = names[i].getBytes(UTF_8);
    }
    return bytes;
  }

  /** Asks for one value. Returns null if its answer does not come in time. */
  private String ask(Client of, String name, long nanos) {
    long start = System.nanoTime();
    try (Call call = of.ask(names(name), start + nanos)[0]) {
      return new String((byte[]) call.await(nanos - (System.nanoTime() - start)), UTF_8);
    } catch (TimeoutException e) {
      return null;
    }
  }

  @Test
  void anAnswerComesWithoutTheThreadOfTheLane() throws Exception {
    redis.call("SET", "a", "value of a");
    Thread[] lanes = new Thread[Thread.activeCount() + 10];
    int count = Thread.enumerate(lanes);
    for (int i = 0; i < 100; i++) {
      Call call = client.ask(names("a"), System.nanoTime() + 5_000 * MILLI)[0];
      assertEquals("value of a", new String((byte[]) call.await(0), UTF_8), "it is there when ask returns");
      call.close();
    }
    for (int i = 0; i < count; i++) {
      if (lanes[i].getName().startsWith("refdb-shared-get")) {
        assertEquals(Thread.State.TIMED_WAITING, lanes[i].getState(), lanes[i].getName());
      }
    }
    assertEquals(0, client.answerBytes());
  }

  @Test
  void aLateAnswerIsNotTakenForThatOfTheNext() throws Exception {
    String large = "x".repeat(100_000); // more than a buffer, so that callers leave within an answer as well
    for (int i = 0; i < 10; i++) {
      redis.call("SET", "key " + i, i + large);
    }
    int late = 0;
    for (int round = 0; round < 300; round++) {
      boolean isPaused = round % 10 == 0;
      if (isPaused) {
        redis.pause();
      }
      String found = ask(client, "key " + round % 10, MILLI);
      if (isPaused) {
        assertNull(found);
        redis.resume();
      } else if (found == null) {
        late++;
      } else {
        assertEquals(round % 10 + large, found);
      }
    }
    assertTrue(late < 270, late + " late");
    assertEquals("3" + large, ask(client, "key 3", 5_000 * MILLI));
    assertEquals(0, failures.get(), "no connection was given up");
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (client.answerBytes() > 0 && System.nanoTime() < end) {
      Thread.sleep(1);
    }
    assertEquals(0, client.answerBytes());
  }

  /**
   * A value that is too large for the thread that asks, and is left to the thread of the connection, arrives whole, and
   * so does the next answer.
   */
  @Test
  void aLargeValueIsInMemoryOnce() throws Exception {
    String large = "x".repeat(1_500_000);
    redis.call("SET", "large", large);
    redis.call("SET", "small", "value");
    for (int i = 0; i < 10; i++) {
      assertEquals(large, ask(client, "large", 5_000 * MILLI));
      assertEquals("value", ask(client, "small", 5_000 * MILLI));
    }
    assertEquals(0, failures.get());
  }

  @Test
  void aPausedServerCostsTheDeadline() throws Exception {
    redis.pause();
    try {
      long[] took = new long[20];
      for (int i = 0; i < took.length; i++) {
        long start = System.nanoTime();
        assertNull(ask(client, "a", 2 * MILLI));
        took[i] = System.nanoTime() - start;
      }
      Arrays.sort(took);
      // The quickest, because a busy machine may add to most of them.
      assertTrue(took[0] >= 2 * MILLI && took[0] < 4 * MILLI, took[0] + " ns");
    } finally {
      redis.resume();
    }
  }

  @Test
  void aClosedConnectionIsOpenedByItsThreadOnly() throws Exception {
    redis.kill();
    assertThrows(RuntimeException.class, () -> {
      for (int i = 0; i < 100; i++) {
        ask(client, "a", 1_000 * MILLI);
      }
    });
    redis.start();
    awaitConnection(client);
    redis.call("SET", "a", "value of a");
    assertEquals("value of a", ask(client, "a", 1_000 * MILLI));
    assertTrue(failures.get() > 0);
  }

  @Test
  void manyThreadsGetTheirOwnAnswers() throws Exception {
    for (int i = 0; i < 50; i++) {
      redis.call("SET", "key " + i, "value " + i);
    }
    AtomicInteger right = new AtomicInteger();
    try (ExecutorService pool = Executors.newFixedThreadPool(16)) {
      List<Future<?>> threads = new ArrayList<>();
      for (int t = 0; t < 16; t++) {
        int seed = t;
        threads.add(
            pool.submit(
                () -> {
                  for (int i = 0; i < 500; i++) {
                    int key = (i * 7 + seed) % 50;
                    String found = ask(client, "key " + key, (i % 3 == 0 ? 1 : 50) * MILLI);
                    if (found != null) {
                      assertEquals("value " + key, found);
                      right.incrementAndGet();
                    }
                  }
                  return null;
                }));
      }
      for (Future<?> thread : threads) {
        thread.get(60, TimeUnit.SECONDS);
      }
    }
    assertTrue(right.get() > 4_000, right + " of 8000");
    assertFalse(failures.get() > 0);
  }
}

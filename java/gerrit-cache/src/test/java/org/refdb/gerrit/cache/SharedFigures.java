package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.Locale;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.shared.Counts;
import org.refdb.gerrit.cache.shared.RedisServer;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;

/**
 * Measures what the shared tier takes beside a bare client, and beside no shared tier. It is no test, and runs only
 * when {@code bench/bench-shared-cache} asks for it by name.
 */
class SharedFigures {
  private static final int KEYS = 2_000;
  private static final int BLOCK = 2_000;
  private static final int ROUNDS = 15;
  private static final int WARM_ROUNDS = 5;
  private static final String VALUE = "v".repeat(4096);

  private interface Action {
    void run(int i) throws Exception;
  }

  @TempDir Path folder;

  /** Prints the figures. */
  @Test
  void figures() throws Exception {
    TestDef inMemory = TestDef.named("fleet").withDiskLimit(-1);
    try (RedisServer redis = new RedisServer(folder);
        SharedNode plain = node(folder, config(redis, false, 0), inMemory);
        SharedNode sealed = node(folder, config(redis, true, 0), inMemory);
        SharedNode off = new SharedNode(folder, off(0), inMemory, key -> VALUE);
        SharedNode local = node(folder, config(redis, false, 1 << 20), TestDef.named("fleet"));
        SharedNode localOff = new SharedNode(folder, off(1 << 20), TestDef.named("fleet"), key -> VALUE);
        Connection bare = new Connection(HostAndPort.from(redis.host()))) {
      fill(plain);
      fill(sealed);
      byte[][] names = redis.names("site", "fleet").stream().map(name -> name.getBytes(UTF_8)).toArray(byte[][]::new);
      long[][] took =
          measure(
              i -> {
                bare.sendCommand(Protocol.Command.GET, names[i % names.length]);
                bare.getOne();
              },
              i -> plain.cache.get("key " + i % KEYS),
              i -> sealed.cache.get("key " + i % KEYS),
              i -> off.cache.get("key " + i % KEYS));
      double[] bareTook = print("GET of a bare client", took[0]);
      double[] hitTook = print("hit in the shared tier", took[1]);
      System.out.printf(
          Locale.ROOT, "a hit beside a GET: p50 %.2f, p99 %.2f%n", hitTook[0] / bareTook[0], hitTook[1] / bareTook[1]);
      print("the same, encrypted", took[2]);
      print("no shared tier, a load that takes no time", took[3]);
      System.out.println("values computed again: " + (plain.loads.get() + sealed.loads.get() - 2 * KEYS));
      for (Counts.Event event : Counts.Event.values()) {
        System.out.print(event.label() + " " + plain.count(event) + "  ");
      }
      System.out.println();
      int[] next = {0};
      took = measure(i -> plain.cache.get("absent " + next[0]++), i -> off.cache.get("absent " + i));
      print("a miss everywhere, then a load that takes no time", took[0]);
      print("no shared tier", took[1]);
      took = measure(i -> local.cache.get("local " + i % 100), i -> localOff.cache.get("local " + i % 100));
      print("local hit, with a shared tier", took[0]);
      print("local hit, without", took[1]);
    }
  }

  private static SharedNode node(Path folder, Config config, TestDef def) {
    return new SharedNode(folder, config, def, key -> VALUE).awaitInUse();
  }

  private static Config config(RedisServer redis, boolean isSealed, long memory) {
    Config config = SharedNode.config(redis.address());
    // The deadline is the default; the budget stays large, because one thread asks all the time.
    config.unset("cache", null, "refdbSharedDeadline");
    config.setLong("cache", "fleet", "memoryLimit", memory);
    if (isSealed) {
      config.setString("cache", null, "refdbSharedKey", Base64.getEncoder().encodeToString(new byte[32]));
      config.setString("cache", null, "refdbSharedNamespace", "sealed");
    }
    return config;
  }

  private static Config off(long memory) {
    Config config = TestGerrit.config();
    config.setLong("cache", "fleet", "memoryLimit", memory);
    return config;
  }

  private static void fill(SharedNode node) throws Exception {
    for (int i = 0; i < KEYS; i++) {
      node.cache.get("key " + i);
    }
    node.awaitStored(KEYS);
  }

  /** Runs the actions in turn, in blocks, so that each meets the same disturbances. Returns the nanoseconds of each. */
  private static long[][] measure(Action... actions) throws Exception {
    long[][] took = new long[actions.length][ROUNDS * BLOCK];
    for (int round = -WARM_ROUNDS; round < ROUNDS; round++) {
      for (int a = 0; a < actions.length; a++) {
        for (int i = 0; i < BLOCK; i++) {
          long start = System.nanoTime();
          actions[a].run(i);
          long nanos = System.nanoTime() - start;
          if (round >= 0) {
            took[a][round * BLOCK + i] = nanos;
          }
        }
      }
    }
    return took;
  }

  /** Prints the median and the 99th percentile in microseconds, and returns them. */
  private static double[] print(String what, long[] nanos) {
    Arrays.sort(nanos);
    double p50 = nanos[nanos.length / 2] / 1e3;
    double p99 = nanos[nanos.length * 99 / 100] / 1e3;
    System.out.println(String.format(Locale.ROOT, "%-50s p50 %7.2f us  p99 %7.2f us", what, p50, p99));
    return new double[] {p50, p99};
  }
}

package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.shared.Counts.Event;
import org.refdb.gerrit.cache.shared.RedisServer;

/**
 * Replicas take over from servers that are killed while two nodes are under load: in a cluster of three, and behind
 * three sentinels. It takes a minute, and runs when {@code scripts/test-long} asks for it by name.
 */
class SharedFailover {
  private static final String LOOPBACK = InetAddress.getLoopbackAddress().getHostAddress();
  private static final int KEYS = 300;
  private static final int THREADS = 3;

  /** The number of a thread's first gets that are not measured, because they load classes. */
  private static final int WARM_GETS = 100;

  /** The budget of a thread, and what a busy machine adds beside the pauses that are measured. */
  private static final long WAIT_MILLIS_MAX = 20 + 40;

  @TempDir Path site;
  private final List<RedisServer> servers = new ArrayList<>();

  /** What loaders compute contains this number, which the test raises before it flushes. */
  private final AtomicLong epoch = new AtomicLong();

  /** The longest time by which a thread slept too long, which shows how busy the machine is. */
  private final AtomicLong pauseNanos = new AtomicLong();
  private volatile boolean isOver;

  @AfterEach
  void stop() throws IOException {
    for (RedisServer server : servers) {
      server.close();
    }
  }

  private RedisServer server(String... options) throws IOException {
    RedisServer server = new RedisServer(Files.createTempDirectory(site, "server"), options);
    servers.add(server);
    return server;
  }

  private static String freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return "" + socket.getLocalPort();
    }
  }

  @Test
  void aReplicaTakesOverInAClusterOfThree() throws Exception {
    List<RedisServer> nodes = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      String bus = freePort();
      RedisServer node = server("--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000");
      nodes.add(node);
      if (i > 0) {
        nodes.getFirst().call("CLUSTER", "MEET", LOOPBACK, "" + node.port(), bus);
      }
    }
    for (int i = 0; i < 3; i++) {
      nodes.get(i).call("CLUSTER", "ADDSLOTSRANGE", "" + 16384 * i / 3, "" + (16384 * (i + 1) / 3 - 1));
    }
    SharedNode.await(() -> nodes.stream().allMatch(SharedFailover::isWhole), "the cluster is not whole");
    for (int i = 0; i < 3; i++) {
      String primary = new String((byte[]) nodes.get(i).call("CLUSTER", "MYID"), UTF_8);
      RedisServer replica = nodes.get(3 + i);
      replica.call("CLUSTER", "REPLICATE", primary);
      SharedNode.await(() -> isCopied(replica), "there is no replica");
    }
    String seeds = nodes.get(1).address().replace("redis:", "redis-cluster:") + "," + nodes.get(0).host();
    survives(seeds, nodes.get(0));
    assertTrue(role(nodes.get(3)).contains("role:master"), "the replica took over");
  }

  private static boolean isWhole(RedisServer node) {
    String info = new String((byte[]) node.call("CLUSTER", "INFO"), UTF_8);
    return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:6");
  }

  private static String role(RedisServer server) {
    return new String((byte[]) server.call("INFO", "replication"), UTF_8);
  }

  private static boolean isCopied(RedisServer replica) {
    return role(replica).contains("master_link_status:up");
  }

  @Test
  void aReplicaTakesOverBehindSentinels() throws Exception {
    RedisServer primary = server();
    RedisServer replica = server();
    replica.call("REPLICAOF", LOOPBACK, "" + primary.port());
    SharedNode.await(() -> isCopied(replica), "there is no replica");
    List<String> hosts = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      Path file = Files.writeString(Files.createTempFile(site, "sentinel", ".conf"), "");
      RedisServer sentinel = server(file.toString(), "--sentinel");
      sentinel.call("SENTINEL", "MONITOR", "main", LOOPBACK, "" + primary.port(), "2");
      sentinel.call("SENTINEL", "SET", "main", "down-after-milliseconds", "1000");
      sentinel.call("SENTINEL", "SET", "main", "failover-timeout", "5000");
      hosts.add(sentinel.host());
    }
    RedisServer last = servers.getLast();
    SharedNode.await(() -> knows(last, "num-other-sentinels", 2) && knows(last, "num-slaves", 1), "not a quorum");
    survives("redis-sentinel://" + String.join(",", hosts) + "/main", primary);
    assertTrue(role(replica).contains("role:master"), "the replica took over");
  }

  private static boolean knows(RedisServer sentinel, String what, int count) {
    List<?> state = (List<?>) sentinel.call("SENTINEL", "MASTER", "main");
    List<String> texts = state.stream().map(each -> new String((byte[]) each, UTF_8)).toList();
    return texts.get(texts.indexOf(what) + 1).equals("" + count);
  }

  private SharedNode node(String address) {
    Config config = SharedNode.config(address);
    config.setString("cache", null, "refdbSharedDeadline", "10 ms");
    config.setString("cache", null, "refdbSharedBudget", "20 ms");
    config.setInt("cache", "fleet", "memoryLimit", 0); // so that each get asks the server
    TestDef inMemory = TestDef.named("fleet").withDiskLimit(-1);
    return new SharedNode(site, config, inMemory, key -> key + " of " + epoch.get()).awaitInUse();
  }

  private void survives(String address, RedisServer victim) throws Exception {
    try (SharedNode first = node(address);
        SharedNode second = node(address);
        ExecutorService pool = Executors.newCachedThreadPool()) {
      AtomicLong oldest = new AtomicLong();
      List<Future<Long>> load = new ArrayList<>();
      for (int t = 0; t < THREADS; t++) {
        load.add(pool.submit(() -> load(first, oldest)));
        load.add(pool.submit(() -> load(second, oldest)));
      }
      try {
        SharedNode.await(() -> hits(first, second) > 1_000, "no load");
        epoch.incrementAndGet();
        first.shared().flush(null);
        TimeUnit.SECONDS.sleep(5); // the promise of a flush
        oldest.set(1);
        victim.kill();
        TimeUnit.SECONDS.sleep(2);
        first.awaitInUse();
        second.awaitInUse();
        long before = hits(first, second);
        SharedNode.await(() -> hits(first, second) > before + 1_000, "values are not found after the failover");
        TimeUnit.SECONDS.sleep(3);
      } finally {
        isOver = true;
      }
      for (Future<Long> thread : load) {
        long millis = thread.get(30, TimeUnit.SECONDS);
        long pause = TimeUnit.NANOSECONDS.toMillis(pauseNanos.get());
        assertTrue(millis <= WAIT_MILLIS_MAX + 3 * pause, millis + " ms for one get, pauses of " + pause + " ms");
      }
      SharedNode.await(
          () -> first.shared().waiting().answerBytes() + second.shared().waiting().answerBytes() == 0,
          "answers are kept for nobody");
    }
  }

  private static long hits(SharedNode first, SharedNode second) {
    return first.count(Event.HITS) + second.count(Event.HITS);
  }

  /**
   * Gets values until the end, and checks each. Returns how many milliseconds the longest get took, without the first
   * {@value #WARM_GETS}.
   */
  private long load(SharedNode node, AtomicLong oldest) throws Exception {
    Random random = new Random();
    long longest = 0;
    for (int gets = 0; !isOver; gets++) {
      String key = "key " + random.nextInt(KEYS);
      long from = oldest.get();
      long start = System.nanoTime();
      String value = node.cache.get(key);
      if (gets >= WARM_GETS) {
        longest = Math.max(longest, System.nanoTime() - start);
      }
      assertTrue(value.startsWith(key + " of "), value + " for " + key);
      long of = Long.parseLong(value.substring(value.lastIndexOf(' ') + 1));
      assertTrue(of >= from && of <= epoch.get(), value + " is older than the flush");
      long slept = System.nanoTime();
      TimeUnit.MILLISECONDS.sleep(1);
      pauseNanos.accumulateAndGet(System.nanoTime() - slept, Math::max);
    }
    return TimeUnit.NANOSECONDS.toMillis(longest);
  }
}

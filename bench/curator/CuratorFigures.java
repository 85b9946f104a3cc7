import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.data.Stat;
import org.refdb.gerrit.global.EtcdServer;
import org.refdb.gerrit.global.Proxy;

/**
 * Measures updates a second of ZooKeeper through Apache Curator, as Curator's documentation advises for a value that
 * nodes compare and set: a set with the version that was read, first alone and then within an InterProcessMutex. One
 * ZooKeeper runs on loopback without syncs, behind a link that delays each direction by 5 ms, as in bench-global.
 */
final class CuratorFigures {
  private static final long LATENCY_MILLIS = 5;
  private static final long NANOS = 5_000_000_000L;
  private static final int WRITERS = 8;

  private CuratorFigures() {}

  private interface Update {
    void to(CuratorFramework client, InterProcessMutex lock, String path, byte[] before, byte[] next) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    Path data = Files.createTempDirectory("bench-zookeeper");
    int port = EtcdServer.freePort();
    Process server = start(port, data);
    try (Proxy link = new Proxy(port)) {
      awaitAnswer(port);
      link.delay(LATENCY_MILLIS);
      String address = link.url().substring("http://".length());
      try (CuratorFramework client = CuratorFrameworkFactory.newClient(address, new ExponentialBackoffRetry(100, 10))) {
        client.start();
        measure(client, "compare-and-set", CuratorFigures::compareAndSet);
        measure(client, "lock, compare-and-set, release", CuratorFigures::locked);
      }
    } finally {
      server.destroyForcibly().waitFor();
      try (var files = Files.walk(data)) {
        files.sorted(java.util.Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
      }
    }
  }

  private static Process start(int port, Path data) throws IOException {
    List<String> command =
        List.of(
            Path.of(System.getProperty("java.home"), "bin/java").toString(), "-Xmx512m", "-Dzookeeper.forceSync=no",
            "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=ruok",
            "-Dzookeeper.clientPortAddress=localhost", "-cp",
            System.getProperty("java.class.path"), "org.apache.zookeeper.server.ZooKeeperServerMain",
            configuration(port, data).toString());
    return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(data.resolve("log").toFile()).start();
  }

  private static Path configuration(int port, Path data) throws IOException {
    String text =
        "tickTime=2000\ndataDir=" + data.resolve("data") + "\nclientPort=" + port + "\nclientPortAddress=localhost\n";
    return Files.writeString(data.resolve("zoo.cfg"), text);
  }

  private static void awaitAnswer(int port) throws Exception {
    for (int i = 0; i < 300; i++) {
      try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
        socket.getOutputStream().write("ruok".getBytes(StandardCharsets.US_ASCII));
        InputStreamReader answer = new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII);
        if ("imok".equals(new BufferedReader(answer).readLine())) {
          return;
        }
      } catch (IOException e) {
        // Not yet.
      }
      Thread.sleep(100);
    }
    throw new IOException("ZooKeeper does not answer");
  }

  private static void measure(CuratorFramework client, String name, Update update) throws Exception {
    perSecond(client, WRITERS, update);
    double one = perSecond(client, 1, update);
    double eight = perSecond(client, WRITERS, update);
    System.out.printf(
        "zookeeper with Curator, %s: %d writers on distinct refs, %d ms each way: %.0f updates/s, one writer %.0f,"
            + " %.2f times%n", name,
        WRITERS, LATENCY_MILLIS, eight, one, eight / one);
  }

  private static double perSecond(CuratorFramework client, int writers, Update update) throws Exception {
    long start = System.nanoTime();
    int done = 0;
    try (ExecutorService threads = Executors.newFixedThreadPool(writers)) {
      List<Future<Integer>> all = new ArrayList<>();
      for (int writer = 0; writer < writers; writer++) {
        String path = "/refs/writer" + writer;
        all.add(threads.submit(() -> work(client, path, start, update)));
      }
      for (Future<Integer> each : all) {
        done += each.get();
      }
    }
    return done / ((System.nanoTime() - start) / 1e9);
  }

  private static int work(CuratorFramework client, String path, long start, Update update) throws Exception {
    InterProcessMutex lock = new InterProcessMutex(client, path.replace("/refs/", "/locks/"));
    byte[] before = id(0);
    if (client.checkExists().forPath(path) == null) {
      client.create().creatingParentsIfNeeded().forPath(path, before);
    } else {
      client.setData().forPath(path, before);
    }
    int count = 0;
    while (System.nanoTime() - start < NANOS) {
      byte[] next = id(++count);
      update.to(client, lock, path, before, next);
      before = next;
    }
    return count;
  }

  private static byte[] id(int number) {
    return "%040x".formatted(number).getBytes(StandardCharsets.US_ASCII);
  }

  private static void compareAndSet(CuratorFramework client, InterProcessMutex lock, String path, byte[] before,
      byte[] next)
      throws Exception {
    Stat stat = new Stat();
    byte[] now = client.getData().storingStatIn(stat).forPath(path);
    if (!java.util.Arrays.equals(now, before)) {
      throw new IllegalStateException("somebody else has moved " + path);
    }
    client.setData().withVersion(stat.getVersion()).forPath(path, next);
  }

  private static void locked(CuratorFramework client, InterProcessMutex lock, String path, byte[] before, byte[] next)
      throws Exception {
    lock.acquire();
    try {
      compareAndSet(client, lock, path, before, next);
    } finally {
      lock.release();
    }
  }
}

package org.refdb.gerrit.global;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** A member of a real etcd on loopback, with its data in a folder of its own. */
public final class EtcdServer implements AutoCloseable {
  private static final int FIRST_PORT = 12_000;
  private static final int PORTS = 300;
  private static final AtomicInteger GIVEN = new AtomicInteger();

  private final Path folder;
  private final int port;
  private final int peerPort;
  private final int healthPort;
  private final Certificates certificates;
  private final String name;

  /** All members of its cluster, in the form of etcd's option {@code --initial-cluster}. */
  private String members;

  private List<String> options;
  private Process process;

  private EtcdServer(String name, Certificates certificates, List<String> options) throws IOException {
    this.folder = Files.createTempDirectory("refdb-etcd");
    this.name = name;
    this.certificates = certificates;
    port = freePort();
    peerPort = freePort();
    healthPort = freePort();
    members = name + "=" + peer();
    this.options = options;
  }

  static EtcdServer start(String... options) throws IOException, InterruptedException {
    EtcdServer server = new EtcdServer("default", null, List.of(options));
    server.run();
    return server;
  }

  /** Starts a server for all tests of a class. */
  static EtcdServer ofClass() {
    try {
      return start();
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Starts {@code count} members of one cluster. */
  public static List<EtcdServer> startCluster(int count, String... options) throws IOException, InterruptedException {
    List<EtcdServer> servers = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      servers.add(new EtcdServer("member" + i, null, List.of(options)));
    }
    String members = String.join(",", servers.stream().map(server -> server.members).toList());
    for (EtcdServer server : servers) {
      server.members = members;
      server.launch();
    }
    for (EtcdServer server : servers) {
      server.awaitHealth();
    }
    return servers;
  }

  private String peer() {
    return "http://localhost:" + peerPort;
  }

  /** Starts a server with TLS that also asks its clients for a certificate. */
  static EtcdServer startWithTls(Certificates certificates) throws IOException, InterruptedException {
    EtcdServer server = new EtcdServer("default", certificates, certificates.ofServer());
    server.run();
    return server;
  }

  /**
   * Returns a free port below the range that the system gives to connections, because otherwise a connection could take
   * the port before etcd has it, or while etcd is killed. A port is not tried again before 299 others, and processes
   * that start after each other usually have different ranges.
   */
  public static int freePort() throws IOException {
    while (true) {
      int port = FIRST_PORT + (int) (ProcessHandle.current().pid() % 64) * PORTS + GIVEN.getAndIncrement() % PORTS;
      try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return socket.getLocalPort();
      } catch (BindException e) {
        // Another program has the port: try the next one.
      }
    }
  }

  public int port() {
    return port;
  }

  public String url() {
    return (certificates == null ? "http" : "https") + "://localhost:" + port;
  }

  Path folder() {
    return folder;
  }

  /** Starts the server on the data that it has, and waits until it answers. */
  public void run() throws IOException, InterruptedException {
    launch();
    awaitHealth();
  }

  /** Starts the server on the data that it has, without waiting until it answers. */
  public void launch() throws IOException {
    List<String> command =
        new ArrayList<>(
            List.of(
                "etcd", "--name", name, "--data-dir", folder.resolve("data").toString(), "--listen-client-urls", url(),
                "--advertise-client-urls", url(), "--listen-peer-urls", peer(), "--initial-advertise-peer-urls", peer(),
                "--initial-cluster", members, "--unsafe-no-fsync", "--listen-metrics-urls",
                "http://localhost:" + healthPort));
    command.addAll(options);
    process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile()))
            .start();
  }

  private Path log() {
    return folder.resolve("log");
  }

  /** Sets the options that apply from the next start on. */
  public void options(String... next) {
    options = List.of(next);
  }

  private void awaitHealth() throws IOException, InterruptedException {
    for (int i = 0; i < 600; i++) {
      if (!process.isAlive()) {
        throw new IOException("etcd has ended: " + Files.readString(log()));
      }
      if (isHealthy()) {
        return;
      }
      Thread.sleep(50);
    }
    throw new IOException("etcd does not answer: " + Files.readString(log()));
  }

  private boolean isHealthy() throws InterruptedException {
    try (HttpClient client = HttpClient.newHttpClient()) {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create("http://localhost:" + healthPort + "/health"))
              .timeout(Duration.ofSeconds(2))
              .build();
      return client.send(request, HttpResponse.BodyHandlers.ofString()).body().contains("true");
    } catch (IOException e) {
      return false;
    }
  }

  /** Returns the number of requests to read or write keys that it has received. */
  long requests() throws IOException, InterruptedException {
    try (HttpClient client = HttpClient.newHttpClient()) {
      HttpRequest request = HttpRequest.newBuilder(URI.create("http://localhost:" + healthPort + "/metrics")).build();
      return client.send(request, HttpResponse.BodyHandlers.ofLines()).body()
          .filter(line -> line.startsWith("grpc_server_started_total") && line.contains("\"etcdserverpb.KV\""))
          .mapToLong(line -> (long) Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
          .sum();
    }
  }

  /** Sends a signal. Returns after STOP when no thread of the server runs any more. */
  public void signal(String name) throws IOException, InterruptedException {
    int status = new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
    if (status != 0) {
      throw new IOException("kill -" + name + " ended with " + status);
    }
    while (name.equals("STOP") && !isStopped()) {
      Thread.sleep(1);
    }
  }

  private boolean isStopped() throws IOException {
    try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/" + process.pid() + "/task"))) {
      for (Path thread : threads) {
        String stat = Files.readString(thread.resolve("stat"));
        if (!stat.startsWith("T", stat.lastIndexOf(')') + 2)) { // the state follows the name
          return false;
        }
      }
      return true;
    }
  }

  /** Returns the processor time that the server has taken since its last start. */
  Duration work() {
    return process.info().totalCpuDuration().orElse(Duration.ZERO);
  }

  public void kill() {
    process.destroyForcibly().onExit().join();
  }

  /** Runs etcdctl. */
  public String ctl(String... words) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("etcdctl", "--endpoints", url()));
    if (certificates != null) {
      command.addAll(certificates.ofCtl());
    }
    command.addAll(List.of(words));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("ETCDCTL_API", "3");
    Process ctl = builder.start();
    String said = new String(ctl.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
    if (ctl.waitFor() != 0) {
      throw new IOException(String.join(" ", command) + ": " + said);
    }
    return said;
  }

  @Override
  public void close() throws IOException {
    kill();
    Folders.delete(folder);
  }
}

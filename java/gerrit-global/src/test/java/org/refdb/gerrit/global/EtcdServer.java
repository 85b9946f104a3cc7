package org.refdb.gerrit.global;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A real etcd of one member on loopback, with its data in a folder of its own. */
final class EtcdServer implements AutoCloseable {
  private final Path folder;
  private final int port;
  private final int peerPort;
  private final List<String> options;
  private Process process;

  private EtcdServer(Path folder, int port, int peerPort, List<String> options) {
    this.folder = folder;
    this.port = port;
    this.peerPort = peerPort;
    this.options = options;
  }

  static EtcdServer start(String... options) throws IOException, InterruptedException {
    EtcdServer server = new EtcdServer(Files.createTempDirectory("refdb-etcd"), freePort(), freePort(), List.of(options));
    server.run();
    return server;
  }

  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  int port() {
    return port;
  }

  String url() {
    return "http://localhost:" + port;
  }

  Path folder() {
    return folder;
  }

  /** Starts it on the data it has, and waits until it answers. */
  void run() throws IOException, InterruptedException {
    String peer = "http://localhost:" + peerPort;
    List<String> command =
        new ArrayList<>(
            List.of(
                "etcd", "--data-dir", folder.resolve("data").toString(), "--listen-client-urls", url(),
                "--advertise-client-urls", url(), "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", "default=" + peer, "--unsafe-no-fsync"));
    command.addAll(options);
    Path said = folder.resolve("log");
    process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(said.toFile()))
            .start();
    for (int i = 0; i < 600; i++) {
      if (!process.isAlive()) {
        throw new IOException("etcd has ended: " + Files.readString(said));
      }
      if (isHealthy()) {
        return;
      }
      Thread.sleep(50);
    }
    throw new IOException("etcd does not answer: " + Files.readString(said));
  }

  private boolean isHealthy() throws InterruptedException {
    try (HttpClient client = HttpClient.newHttpClient()) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(url() + "/health")).timeout(Duration.ofSeconds(2)).build();
      return client.send(request, HttpResponse.BodyHandlers.ofString()).body().contains("true");
    } catch (IOException e) {
      return false;
    }
  }

  void signal(String name) throws IOException, InterruptedException {
    int status = new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
    if (status != 0) {
      throw new IOException("kill -" + name + " ended with " + status);
    }
  }

  /** How long processors have worked for it. */
  Duration work() {
    return process.info().totalCpuDuration().orElse(Duration.ZERO);
  }

  void kill() {
    process.destroyForcibly().onExit().join();
  }

  /** Runs etcdctl. */
  String ctl(String... words) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("etcdctl", "--endpoints", url()));
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
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    }
  }
}

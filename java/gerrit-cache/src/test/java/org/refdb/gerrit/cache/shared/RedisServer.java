package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol;

/** A real server on loopback, which a test can pause, kill and start anew. */
public final class RedisServer implements AutoCloseable {
  private static final String LOOPBACK = InetAddress.getLoopbackAddress().getHostAddress();

  private final Path folder;
  private final List<String> options;
  private final int port;
  private Process process;

  /** Starts a server that keeps no data on disk. */
  public RedisServer(Path folder, String... options) throws IOException {
    this.folder = folder;
    this.options = List.of(options);
    this.port = freePort();
    start();
  }

  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  /** Starts the server, empty, with the constructor's options, of which the first may name a configuration file. */
  public void start() throws IOException {
    List<String> command = new ArrayList<>(List.of(program()));
    boolean hasFile = !options.isEmpty() && !options.getFirst().startsWith("--");
    if (hasFile) {
      command.add(options.getFirst());
    }
    command.addAll(List.of("--port", "" + port, "--bind", LOOPBACK));
    command.addAll(options.subList(hasFile ? 1 : 0, options.size()));
    if (!options.contains("--sentinel")) {
      command.addAll(List.of("--save", "", "--appendonly", "no"));
    }
    process =
        new ProcessBuilder(command)
            .directory(folder.toFile())
            .redirectErrorStream(true)
            .redirectOutput(new File(folder.toFile(), "redis-" + port + ".log"))
            .start();
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (true) {
      try {
        new Socket(InetAddress.getLoopbackAddress(), port).close();
        return;
      } catch (IOException e) {
        if (System.nanoTime() > end || !process.isAlive()) {
          throw e;
        }
      }
    }
  }

  private static String program() {
    return System.getenv().getOrDefault("REFDB_TEST_REDIS", "redis-server");
  }

  public int port() {
    return port;
  }

  public String address() {
    return "redis://" + host();
  }

  public String host() {
    return LOOPBACK + ":" + port;
  }

  /** Sends a command on a connection of its own. */
  public Object call(String command, byte[]... arguments) {
    try (Connection connection = new Connection(LOOPBACK, port)) {
      connection.sendCommand(() -> command.getBytes(UTF_8), arguments);
      return connection.getOne();
    }
  }

  public Object call(String command, String... arguments) {
    byte[][] bytes = new byte[arguments.length][];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = arguments[i].getBytes(UTF_8);
    }
    return call(command, bytes);
  }

  /** Returns the names of all entries of a cache. */
  public List<String> names(String namespace, String cache) {
    List<?> found = (List<?>) call(Protocol.Command.KEYS.name(), EntryKeys.prefix(namespace) + cache + ":*");
    return found.stream().map(name -> new String((byte[]) name, UTF_8)).sorted().toList();
  }

  public void pause() throws Exception {
    signal("-STOP");
  }

  public void resume() throws Exception {
    signal("-CONT");
  }

  private void signal(String name) throws Exception {
    new ProcessBuilder("kill", name, "" + process.pid()).inheritIO().start().waitFor();
  }

  public void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly();
  }
}

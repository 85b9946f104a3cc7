package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Two nodes flush at the same moment: the newer generation stands. */
class GenerationsRaceTest {
  /** A server that stores {@link #fromAnother}, the generation of another node, once, just before the next SET. */
  private static final class RacingServer implements AutoCloseable {
    final Map<String, String> entries = new ConcurrentHashMap<>();
    private final ServerSocket socket = new ServerSocket(0, 9, InetAddress.getLoopbackAddress());
    private final boolean knowsGet;
    volatile String fromAnother;

    RacingServer(boolean knowsGet) throws IOException {
      this.knowsGet = knowsGet;
      Thread.ofVirtual().start(() -> {
        while (!socket.isClosed()) {
          try {
            Socket connection = socket.accept();
            Thread.ofVirtual().start(() -> serve(connection));
          } catch (IOException e) {
            return;
          }
        }
      });
    }

    private void serve(Socket connection) {
      try (connection;
          BufferedReader in = new BufferedReader(new InputStreamReader(connection.getInputStream(), US_ASCII))) {
        OutputStream out = connection.getOutputStream();
        for (String count = in.readLine(); count != null; count = in.readLine()) {
          List<String> words = new ArrayList<>();
          for (int i = Integer.parseInt(count.substring(1)); i > 0; i--) {
            in.readLine();
            words.add(in.readLine());
          }
          out.write(answer(words).getBytes(US_ASCII));
          out.flush();
        }
      } catch (IOException e) {
        // The node has left.
      }
    }

    private synchronized String answer(List<String> words) {
      switch (words.getFirst()) {
        case "GET" -> {
          return bulk(entries.get(words.get(1)));
        }
        case "SET" -> {
          boolean wantsOld = words.contains("GET");
          if (wantsOld && !knowsGet) {
            return "-ERR syntax error\r\n";
          }
          if (fromAnother != null) {
            entries.put(words.get(1), fromAnother);
            fromAnother = null;
          }
          String old = entries.put(words.get(1), words.get(2));
          return wantsOld ? bulk(old) : "+OK\r\n";
        }
        default -> {
          return "+OK\r\n";
        }
      }
    }

    private static String bulk(String text) {
      return text == null ? "$-1\r\n" : "$" + text.length() + "\r\n" + text + "\r\n";
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }

  private static final String ALL = "refdb:site:generation:";

  @TempDir Path site;

  private SharedCaches node(RacingServer server) throws Exception {
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", "redis://localhost:" + server.socket.getLocalPort());
    config.setString("cache", null, "refdbSharedDeadline", "500 ms");
    SharedCaches node = SharedCaches.of(config, site);
    while (!node.isInUse()) {
      Thread.sleep(10);
    }
    return node;
  }

  @Test
  void aFlushDoesNotUndoANewerOne() throws Exception {
    try (RacingServer server = new RacingServer(true)) {
      server.entries.put(ALL, "1000");
      try (SharedCaches node = node(server)) {
        String newer = String.valueOf(System.currentTimeMillis() + 30_000);
        server.fromAnother = newer;
        node.flush(null);
        assertEquals(newer, server.entries.get(ALL));
      }
    }
  }

  @Test
  void aFlushNeverLooksLikeTheFirstGeneration() throws Exception {
    try (RacingServer server = new RacingServer(true)) {
      try (SharedCaches node = node(server)) {
        assertEquals(0, Long.parseLong(server.entries.get(ALL)) % 1_000, "the first of " + node);
      }
      long ahead = System.currentTimeMillis() / 1_000 * 1_000 + 60_999;
      server.entries.put(ALL, "" + ahead);
      try (SharedCaches node = node(server)) {
        node.flush(null);
        assertEquals("" + (ahead + 2), server.entries.get(ALL));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aFlushArrives(boolean knowsGet) throws Exception {
    try (RacingServer server = new RacingServer(knowsGet)) {
      server.entries.put(ALL, "1000");
      try (SharedCaches node = node(server)) {
        long before = System.currentTimeMillis();
        node.flush(null);
        assertTrue(Long.parseLong(server.entries.get(ALL)) >= before);
      }
    }
  }
}

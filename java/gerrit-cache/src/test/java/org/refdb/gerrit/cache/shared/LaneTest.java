package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** Connections to a server that accepts them and then reads nothing. */
class LaneTest {
  private static final int RECEIVE_BYTES = 4096;
  private static final int BYTES_OF_SOCKETS = 300_000;
  private static final int MORE_BYTES_THAN_SOCKETS_TAKE = 64 << 20;

  private final CountDownLatch isFailed = new CountDownLatch(1);
  private ServerSocket server;
  private Lane lane;
  private Socket accepted;

  @BeforeEach
  void connect() throws Exception {
    server = new ServerSocket();
    server.setReceiveBufferSize(RECEIVE_BYTES);
    server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", "redis://localhost:" + server.getLocalPort());
    Connector connector = new Connector(SharedSettings.of(config, Path.of("/")));
    HostAndPort host = new HostAndPort("localhost", server.getLocalPort());
    lane = new Lane("test", () -> connector.connect(host), cause -> isFailed.countDown());
    accepted = server.accept();
  }

  @AfterEach
  void close() throws Exception {
    lane.close();
    accepted.close();
    server.close();
  }

  private Call send(int valueBytes) throws InterruptedException {
    CommandArguments set = new CommandArguments(Protocol.Command.SET).key("key").add(new byte[valueBytes]);
    Call call = new Call(set, new AnswerMemory());
    while (!lane.offer(call)) {
      Thread.sleep(10);
    }
    return call;
  }

  /** Previously, the system went on sending for minutes, and undid what was deleted meanwhile. */
  @Test
  void aCommandWhoseConnectionIsGivenUpDoesNotArriveLater() throws Exception {
    Call call = send(BYTES_OF_SOCKETS);
    assertThrows(JedisConnectionException.class, () -> call.await(TimeUnit.SECONDS.toNanos(60)));
    isFailed.await(); // the connection is closed
    long came = 0;
    byte[] some = new byte[RECEIVE_BYTES];
    try {
      InputStream in = accepted.getInputStream();
      for (int got = in.read(some); got >= 0; got = in.read(some)) {
        came += got;
      }
    } catch (IOException e) {
      // The connection was reset.
    }
    assertTrue(came < BYTES_OF_SOCKETS, came + " bytes");
  }

  /** Previously, the thread waited as long as the system tries to send, which may be without an end. */
  @Test
  void aCommandThatTheServerDoesNotTakeIsGivenUp() throws Exception {
    Call call = send(MORE_BYTES_THAN_SOCKETS_TAKE);
    for (int i = 0; i < 600 && !isFailed.await(100, TimeUnit.MILLISECONDS); i++) {
      lane.giveUpSending(TimeUnit.SECONDS.toNanos(2));
    }
    assertThrows(JedisConnectionException.class, () -> call.await(0));
  }
}

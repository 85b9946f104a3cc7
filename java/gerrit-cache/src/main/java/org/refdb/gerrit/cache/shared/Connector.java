package org.refdb.gerrit.cache.shared;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.ClientSetInfoConfig;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisSocketFactory;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** Connects to servers: names, TCP, TLS and the log-in. All of it blocks, so only threads of our own do it. */
final class Connector {
  private static final int CONNECT_MILLIS_MAX = 2_000;

  /**
   * How long a connection waits for anything from the server before it is given up. A request leaves at its deadline,
   * by default after 2 ms.
   */
  private static final int ANSWER_MILLIS_MAX = 1_000;

  /** What an answer may have beside a value: our header, and the frame. Lists of a cluster's slots need room too. */
  private static final long FRAME_BYTES_EXTRA = 1 << 20;

  private final SharedSettings settings;
  private final SSLSocketFactory tls;

  /**
   * Creates a connector.
   *
   * @throws IOException if the trust store cannot be read
   */
  Connector(SharedSettings settings) throws IOException {
    this.settings = settings;
    this.tls = settings.address().tls() ? tlsFactory(settings) : null;
  }

  private static SSLSocketFactory tlsFactory(SharedSettings settings) throws IOException {
    if (settings.trustStore() == null) {
      return (SSLSocketFactory) SSLSocketFactory.getDefault();
    }
    try (InputStream file = Files.newInputStream(settings.trustStore())) {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      String password = settings.trustStorePassword();
      store.load(file, password == null ? null : password.toCharArray());
      TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      trusted.init(store);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, trusted.getTrustManagers(), null);
      return context.getSocketFactory();
    } catch (GeneralSecurityException e) {
      throw new IOException("cannot use the trust store " + settings.trustStore() + ": " + e.getMessage(), e);
    }
  }

  /** A connection of Jedis that can be told to send now. */
  static final class Sender extends Connection {
    Sender(JedisSocketFactory sockets, JedisClientConfig config) {
      super(sockets, config);
    }

    @Override
    public void flush() {
      super.flush();
    }
  }

  /**
   * A connection, and the socket below it, which can be closed while another thread is blocked in the connection.
   *
   * @param socket the TCP socket, below TLS
   * @param input what the connection reads
   * @param canWait whether a wait for an answer may end early; not with TLS, which might lose its place within a record
   */
  record Link(Sender connection, Socket socket, FrameInput input, boolean canWait) implements AutoCloseable {
    @Override
    public void close() {
      Connector.close(socket);
    }
  }

  /**
   * Connects and logs in.
   *
   * @throws RuntimeException if that fails
   */
  Link connect(HostAndPort host) {
    return connect(host, settings.user(), settings.password());
  }

  /**
   * Connects to a sentinel without logging in, because the user of the settings is one of the server, not of sentinels.
   */
  Link connectToSentinel(HostAndPort host) {
    return connect(host, null, null);
  }

  private Link connect(HostAndPort host, String user, String password) {
    Socket socket = new Socket();
    FrameInput[] input = new FrameInput[1];
    try {
      Sender connection =
          new Sender(
              () -> {
                input[0] = open(socket, host);
                return new CheckedSocket(input[0]);
              },
              login(user, password));
      return new Link(connection, socket, input[0], tls == null);
    } catch (RuntimeException e) {
      close(socket);
      throw e;
    }
  }

  /** Returns the settings for logging in without HELLO and CLIENT, so that an ACL need not allow these commands. */
  private static JedisClientConfig login(String user, String password) {
    return DefaultJedisClientConfig.builder()
        .user(user)
        .password(password)
        .socketTimeoutMillis(ANSWER_MILLIS_MAX)
        .clientSetInfoConfig(ClientSetInfoConfig.DISABLED)
        .build();
  }

  private FrameInput open(Socket socket, HostAndPort host) {
    if (socket.isConnected() || socket.isClosed()) { // Jedis would connect anew, and not on a thread of ours
      throw new JedisConnectionException("the connection to " + host + " is closed");
    }
    try {
      socket.setTcpNoDelay(true);
      socket.setSoLinger(true, 0); // what is given up with a connection must not arrive later, and undo a deletion
      socket.connect(new InetSocketAddress(host.getHost(), host.getPort()), CONNECT_MILLIS_MAX);
      socket.setSoTimeout(ANSWER_MILLIS_MAX); // the handshake of TLS waits no longer either
      Socket used = tls == null ? socket : encrypted(socket, host);
      return new FrameInput(used, settings.valueBytesMax() + FRAME_BYTES_EXTRA, ANSWER_MILLIS_MAX);
    } catch (IOException e) {
      throw new JedisConnectionException("cannot connect to " + host + ": " + e.getMessage(), e);
    }
  }

  private Socket encrypted(Socket socket, HostAndPort host) throws IOException {
    SSLSocket encrypted = (SSLSocket) tls.createSocket(socket, host.getHost(), host.getPort(), true);
    SSLParameters parameters = encrypted.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS"); // the certificate must be for this host
    encrypted.setSSLParameters(parameters);
    encrypted.startHandshake();
    return encrypted;
  }

  private static void close(Socket socket) {
    try {
      socket.close();
    } catch (IOException e) {
      // The socket is given up anyway.
    }
  }
}

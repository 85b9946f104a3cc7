package org.refdb.gerrit.cache.shared;

import com.google.common.flogger.FluentLogger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisRedirectionException;

/** Sends commands to the servers. No method but {@link #ask}, {@link #refresh} and {@link #close} blocks. */
final class Client implements AutoCloseable {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final int READERS = 2;

  /** How long a server may take to accept what is sent together. A slow line needs this long for the largest value. */
  private static final long SEND_NANOS_MAX = TimeUnit.SECONDS.toNanos(30);

  /** Commands of at most so many bytes together have room in the buffers of an idle socket, on any system. */
  private static final int DIRECT_BYTES_MAX = 4096;

  /** The most bytes that a GET takes beside its key. */
  private static final int GET_BYTES = 32;

  private final Connector connector;
  private final Route route;
  private final Lane.Failures failures;
  private final AnswerMemory memory = new AnswerMemory();
  private final Map<HostAndPort, Server> servers = new ConcurrentHashMap<>();
  private boolean isClosed;

  Client(ServerAddress address, Connector connector, Lane.Failures failures) {
    this.connector = connector;
    this.failures = failures;
    this.route =
        switch (address.kind()) {
          case SERVER -> new FixedRoute(address.hosts());
          case SENTINEL -> new SentinelRoute(connector, address.hosts(), address.master());
          case CLUSTER -> new ClusterRoute(connector, address.hosts());
        };
  }

  /** The lanes to one server. What is stored has a lane of its own, so that no look-up waits behind a large value. */
  private final class Server implements AutoCloseable {
    private final Lane[] readers = new Lane[READERS];
    private final Lane writer;
    private final AtomicInteger turn = new AtomicInteger();

    Server(HostAndPort host) {
      for (int i = 0; i < READERS; i++) {
        readers[i] = lane("refdb-shared-get-" + i, host);
      }
      writer = lane("refdb-shared-put", host);
    }

    private Lane lane(String name, HostAndPort host) {
      return new Lane(name, () -> connector.connect(host), cause -> failed(host, cause));
    }

    Lane reader() {
      return readers[Math.floorMod(turn.getAndIncrement(), READERS)];
    }

    /** Makes the calls on an unused connection without TLS. Returns false, and has sent nothing, if there is none. */
    boolean exchange(List<Call> calls, long untilNanos) {
      for (Lane reader : readers) {
        if (reader.exchange(calls, untilNanos)) {
          return true;
        }
      }
      return false;
    }

    void giveUpSending() {
      for (Lane reader : readers) {
        reader.giveUpSending(SEND_NANOS_MAX);
      }
      writer.giveUpSending(SEND_NANOS_MAX);
    }

    @Override
    public void close() {
      for (Lane reader : readers) {
        reader.close();
      }
      writer.close();
    }
  }

  private void failed(HostAndPort host, Throwable cause) {
    String why = cause.getMessage();
    logger.atWarning().atMostEvery(1, TimeUnit.MINUTES).log("The shared cache on %s fails: %s", host, why);
    route.failed(host);
    failures.failed(cause);
  }

  /**
   * Tells the route that its server for a key is the wrong one, if the words with which the server refused a command
   * say so: a redirection, or {@code READONLY}.
   */
  void refused(byte[] key, JedisDataException words) {
    String text = String.valueOf(words.getMessage());
    HostAndPort host = route.serverOf(key);
    if (host != null && (words instanceof JedisRedirectionException || text.startsWith("READONLY"))) {
      route.failed(host);
    }
  }

  /**
   * Asks for values, as {@link #get} does; but if the keys are few, one server has all of them, and a connection
   * without TLS to that server is free, this method sends and reads on the thread of the caller, so that no other
   * thread has to run before the caller goes on. It then blocks for the answers, at most until {@code untilNanos}, a
   * time of {@link System#nanoTime}.
   */
  Call[] ask(byte[][] keys, long untilNanos) {
    Call[] calls = calls(keys);
    Server server = onlyServer(keys);
    if (server == null || !server.exchange(List.of(calls), untilNanos)) {
      send(calls, keys);
    }
    return calls;
  }

  /**
   * Returns the server that has all the keys; null if there is no such server or it is not known, or if the commands
   * take more than {@link #DIRECT_BYTES_MAX}.
   */
  private Server onlyServer(byte[][] keys) {
    HostAndPort only = null;
    int bytes = 0;
    for (byte[] key : keys) {
      bytes += key.length + GET_BYTES;
      HostAndPort host = route.serverOf(key);
      if (host == null || only != null && !only.equals(host) || bytes > DIRECT_BYTES_MAX) {
        return null;
      }
      only = host;
    }
    return only == null ? null : servers.get(only);
  }

  /** Asks for values, over one connection to each server that has any of the keys. Calls that cannot be sent fail. */
  Call[] get(byte[][] keys) {
    Call[] calls = calls(keys);
    send(calls, keys);
    return calls;
  }

  private Call[] calls(byte[][] keys) {
    return Arrays.stream(keys)
        .map(key -> new Call(new CommandArguments(Protocol.Command.GET).key(key), memory))
        .toArray(Call[]::new);
  }

  private void send(Call[] calls, byte[][] keys) {
    Map<HostAndPort, Lane> lanes = new HashMap<>();
    for (int i = 0; i < keys.length; i++) {
      HostAndPort host = route.serverOf(keys[i]);
      Server server = host == null ? null : servers.get(host);
      if (server == null) {
        calls[i].fail(withoutServer(host));
      } else {
        send(calls[i], lanes.computeIfAbsent(host, any -> server.reader()));
      }
    }
  }

  /** Sends a command over the connection on which values are stored, so that no look-up waits behind the command. */
  Call send(CommandArguments command, byte[] key) {
    return sendTo(route.serverOf(key), command);
  }

  /** Returns all servers to which keys lead, as far as they are known. */
  Set<HostAndPort> hosts() {
    return route.servers();
  }

  /** Sends a command to one server. The call fails if {@code host} is null or there is no connection. */
  Call sendTo(HostAndPort host, CommandArguments command) {
    Server server = host == null ? null : servers.get(host);
    Call call = new Call(command, memory);
    if (server == null) {
      call.fail(withoutServer(host));
    } else {
      send(call, server.writer);
    }
    return call;
  }

  private static void send(Call call, Lane lane) {
    if (!lane.offer(call)) {
      call.fail(lane.isNew() ? new ConnectingException() : noConnection());
    }
  }

  /** Returns why nothing can be sent to a host that has no lanes; null is the host of a key that no server has. */
  private static JedisConnectionException withoutServer(HostAndPort host) {
    return host == null ? noConnection() : new ConnectingException();
  }

  private static JedisConnectionException noConnection() {
    return new JedisConnectionException("there is no connection");
  }

  /** Returns the bytes of answers that nobody has taken yet. */
  long answerBytes() {
    return memory.used();
  }

  /**
   * Follows the route: connects to new servers, and leaves those to which no keys lead any more. Also gives up
   * connections that have been sending for half a minute.
   */
  void refresh() {
    servers.values().forEach(Server::giveUpSending);
    route.refresh();
    Set<HostAndPort> wanted = route.servers();
    List<Server> unwanted = new ArrayList<>();
    synchronized (servers) {
      if (isClosed) {
        return;
      }
      wanted.forEach(host -> servers.computeIfAbsent(host, Server::new));
      for (HostAndPort host : Set.copyOf(servers.keySet())) {
        if (!wanted.contains(host)) {
          unwanted.add(servers.remove(host));
        }
      }
    }
    unwanted.forEach(Server::close);
  }

  @Override
  public void close() {
    synchronized (servers) { // no server is added after that
      isClosed = true;
    }
    servers.values().forEach(Server::close);
    servers.clear();
  }
}

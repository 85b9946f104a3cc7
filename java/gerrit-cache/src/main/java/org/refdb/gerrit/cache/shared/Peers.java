package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Lets a node ask another one of its site to offer the values that it has. Both talk by entries on the server of the
 * shared cache, which are encrypted and authenticated like values: a request, which the node that asks renews while it
 * waits, and a report of the one that was asked. The server drops each of these entries soon after its writer stops
 * renewing it.
 *
 * <p>A node is known by its {@code gerrit.instanceId}.
 */
public final class Peers {
  private static final long ANSWER_NANOS_MAX = TimeUnit.SECONDS.toNanos(1);
  private static final long REQUEST_MILLIS = 30_000;
  private static final long REPORT_MILLIS = 10_000;

  /**
   * The age up to which a request or a report is taken, because clocks differ. An older one may be a copy that an
   * attacker kept.
   */
  private static final long AGE_MILLIS_MAX = 120_000;
  private static final int NAME_CHARS_MAX = 200;
  private static final int PARTS = 3;
  private static final byte[] NO_KEY = {};

  private final Client client;
  private final EntryFormat format;
  private final String namespace;
  private final String self;

  /**
   * A request.
   *
   * @param id what tells it from all other requests
   * @param entriesPerSecond the most entries a second that are to be offered
   * @param cache the cache; null for all
   */
  public record Request(String id, int entriesPerSecond, String cache) {
    private String text() {
      return id + "\n" + entriesPerSecond + "\n" + (cache == null ? "" : cache);
    }

    /** Parses a request. Returns null for what is none. */
    private static Request of(String text) {
      String[] parts = text.split("\n", -1);
      if (parts.length != PARTS || parts[0].isEmpty() || !parts[1].matches("[1-9][0-9]{0,5}")) {
        return null;
      }
      return new Request(parts[0], Integer.parseInt(parts[1]), parts[2].isEmpty() ? null : parts[2]);
    }
  }

  /** How far a node is with what it was asked for. */
  public enum Phase {
    /** The node goes on. */
    RUNNING,
    /** All values that it may offer were offered. */
    DONE,
    /** The node has given up. */
    FAILED
  }

  /**
   * A report.
   *
   * @param id that of the request
   * @param offered how many values were offered
   */
  public record Report(String id, Phase phase, long offered) {
    private String text() {
      return id + "\n" + phase + "\n" + offered;
    }

    /** Parses a report. Returns null for what is none. */
    private static Report of(String text) {
      String[] parts = text.split("\n", -1);
      if (parts.length != PARTS || !parts[2].matches("[0-9]{1,18}")) {
        return null;
      }
      for (Phase phase : Phase.values()) {
        if (phase.name().equals(parts[1])) {
          return new Report(parts[0], phase, Long.parseLong(parts[2]));
        }
      }
      return null;
    }
  }

  /**
   * Creates the object by which a node asks others and is asked.
   *
   * @param self its {@code gerrit.instanceId}; nobody can ask the node if this is null or has more than 200 characters
   */
  Peers(Client client, EntryFormat format, String namespace, String self) {
    this.client = client;
    this.format = format;
    this.namespace = namespace;
    this.self = self == null || self.length() > NAME_CHARS_MAX ? null : self;
  }

  /** Returns whether this is the name of this node. */
  public boolean isSelf(String peer) {
    return peer.equals(self);
  }

  private byte[] name(String peer, String what) {
    return (EntryKeys.prefix(namespace) + "peer:" + peer + ":" + what).getBytes(UTF_8);
  }

  /**
   * Asks a node, or renews the request.
   *
   * @throws IOException if another request to the node goes on, or the server refuses or does not answer
   */
  public void ask(String peer, Request request) throws IOException {
    Request present = requestTo(peer);
    if (present != null && !present.id.equals(request.id)) {
      throw new IOException(peer + " is asked by another node at the moment");
    }
    write(name(peer, "request"), request.text(), REQUEST_MILLIS);
  }

  /** Ends a request to a node, which stops soon. */
  public void withdraw(String peer, Request request) throws IOException {
    Request present = requestTo(peer);
    if (present != null && present.id.equals(request.id)) {
      byte[] name = name(peer, "request");
      call(client.send(new CommandArguments(Protocol.Command.DEL).key(name), name));
    }
  }

  /** Returns what another node asks of this one; null for nothing. */
  Request request() throws IOException {
    return self == null ? null : requestTo(self);
  }

  private Request requestTo(String peer) throws IOException {
    String text = read(name(peer, "request"));
    return text == null ? null : Request.of(text);
  }

  /** Tells the node that asks how far this one is. */
  public void report(Report report) throws IOException {
    write(name(self, "report"), report.text(), REPORT_MILLIS);
  }

  /** Returns how far a node is with a request; null if it has not told within some seconds. */
  public Report reportOf(String peer, Request request) throws IOException {
    String text = read(name(peer, "report"));
    Report report = text == null ? null : Report.of(text);
    return report != null && report.id.equals(request.id) ? report : null;
  }

  private void write(byte[] name, String text, long millis) throws IOException {
    CommandArguments set =
        new CommandArguments(Protocol.Command.SET)
            .key(name)
            .add(format.encode(name, NO_KEY, text.getBytes(UTF_8), System.currentTimeMillis()))
            .add("PX".getBytes(US_ASCII))
            .add(Long.toString(millis).getBytes(US_ASCII));
    call(client.send(set, name));
  }

  /** Returns the text under a name; null if there is none, or one that no node of this site has written lately. */
  private String read(byte[] name) throws IOException {
    try {
      if (call(client.get(new byte[][] {name})[0]) instanceof byte[] entry) {
        EntryFormat.Value value = format.decode(name, NO_KEY, entry);
        long age = System.currentTimeMillis() - value.createdMillis();
        return Math.abs(age) <= AGE_MILLIS_MAX ? new String(value.bytes(), UTF_8) : null;
      }
    } catch (EntryFormat.BadEntryException e) {
      // A bad entry counts as none.
    }
    return null;
  }

  private static Object call(Call made) throws IOException {
    try (Call call = made) {
      return call.await(ANSWER_NANOS_MAX);
    } catch (TimeoutException e) {
      throw new IOException("the shared cache does not answer", e);
    } catch (JedisException e) {
      throw new IOException("the shared cache: " + e.getMessage(), e);
    }
  }
}

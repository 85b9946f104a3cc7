package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Walks over the names of a site's entries on all servers, with the server's SCAN, which holds up other commands only
 * for moments.
 */
public final class EntryScan {
  private static final long ANSWER_NANOS_MAX = TimeUnit.SECONDS.toNanos(2);

  /** How many names, approximately, a server looks at for one answer. */
  private static final int COUNT = 500;

  /** A walk that takes more answers, which would be of some 500 million names, is taken for one that never ends. */
  private static final int ANSWERS_MAX = 1_000_000;
  private static final String START = "0";

  private final Client client;
  private final String namespace;
  private final String prefix;
  private final Queue<HostAndPort> hosts;
  private String cursor = START;
  private int answers;

  /**
   * A name, and the cache to which it belongs.
   *
   * @param cache the name of the cache
   * @param bytes the name of the entry
   */
  public record Name(String cache, byte[] bytes) {}

  EntryScan(Client client, String namespace, String cache) {
    this.client = client;
    this.namespace = namespace;
    this.prefix = EntryKeys.prefix(namespace) + (cache == null ? "" : cache + ":");
    this.hosts = new ArrayDeque<>(client.hosts());
  }

  /**
   * Asks for the next names. Returns null at the end. A list before the end may be empty, and a name may come twice.
   *
   * @throws IOException if the server does not answer, refuses, answers with something else, or does not end its list
   *     of names
   */
  public List<Name> next() throws IOException {
    if (hosts.isEmpty()) {
      return null;
    }
    if (++answers > ANSWERS_MAX) {
      throw new IOException("the server does not end its list of names");
    }
    Object answer = scan(hosts.peek());
    if (!(answer instanceof List<?> parts
        && parts.size() == 2
        && parts.get(0) instanceof byte[] next
        && parts.get(1) instanceof List<?> names)) {
      throw new IOException("the server answers SCAN with something else");
    }
    cursor = new String(next, US_ASCII);
    if (cursor.equals(START)) {
      hosts.remove();
    }
    return entries(names);
  }

  private Object scan(HostAndPort host) throws IOException {
    CommandArguments scan =
        new CommandArguments(Protocol.Command.SCAN)
            .add(cursor.getBytes(US_ASCII))
            .add("MATCH".getBytes(US_ASCII))
            .add((prefix + "*").getBytes(UTF_8))
            .add("COUNT".getBytes(US_ASCII))
            .add(Integer.toString(COUNT).getBytes(US_ASCII));
    try (Call call = client.sendTo(host, scan)) {
      return call.await(ANSWER_NANOS_MAX);
    } catch (TimeoutException e) {
      throw new IOException("the server does not answer SCAN", e);
    } catch (JedisException e) { // for example, because the user may not; the message is the server's
      throw new IOException("SCAN: " + e.getMessage(), e);
    }
  }

  private List<Name> entries(List<?> names) {
    List<Name> entries = new ArrayList<>();
    for (Object each : names) {
      if (each instanceof byte[] name) {
        String cache = EntryKeys.cacheOf(namespace, name);
        if (cache != null) {
          entries.add(new Name(cache, name));
        }
      }
    }
    return entries;
  }
}

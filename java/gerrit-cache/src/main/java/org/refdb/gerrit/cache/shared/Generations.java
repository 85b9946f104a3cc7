package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * The generation of each cache, which is part of the names of its entries: a flush raises it, and no older entry is
 * found any more. The number is kept on the server, where all nodes read it each second.
 *
 * <p>A generation is a time in milliseconds, so that one that the server has lost is not used a second time. Nodes
 * never go back: to a server that has less than they have seen, because it was restarted or is a replica that had not
 * caught up, they write what they have seen.
 */
final class Generations {
  /** Without news for this long, no value is served: a flush by another node may have been missed. */
  private static final long VALID_NANOS = TimeUnit.MILLISECONDS.toNanos(4_500);
  private static final long ANSWER_NANOS_MAX = TimeUnit.SECONDS.toNanos(1);
  private static final int DIGITS_MAX = 18;

  /**
   * How often a poll writes the generation of one cache at most. It writes again if what it replaced was higher, because
   * another node had raised the generation meanwhile.
   */
  private static final int WRITES_MAX = 4;

  /** A generation that is further in the future than a wrong clock can explain counts as damaged. */
  private static final long AHEAD_MILLIS_MAX = TimeUnit.DAYS.toMillis(3_650);

  /** What the server has, if that is no generation. */
  private static final long DAMAGED = -1;

  /** The first generation of a cache is a multiple of this, and one that a flush has made is not. */
  private static final long FIRST_MILLIS = 1_000;

  /** The name under which the generation of all caches together is kept. */
  static final String ALL = "";

  private final String namespace;
  private final Map<String, Long> seen = new ConcurrentHashMap<>();

  /** The caches whose generation was raised here since it was last compared with that of the server. */
  private final Set<String> raised = ConcurrentHashMap.newKeySet();
  private volatile long validUntilNanos = System.nanoTime();
  private volatile long completeNanos = System.nanoTime();
  private volatile long raisedNanos = completeNanos;

  Generations(String namespace) {
    this.namespace = namespace;
    add(ALL);
  }

  /** Adds a cache. Its generation is known after the next poll that succeeds. */
  void add(String cache) {
    seen.putIfAbsent(cache, 0L);
  }

  /** Returns the current generation of a cache as text; null if it is not known, or not known to be the newest. */
  String of(String cache) {
    long all = seen.get(ALL);
    long own = seen.get(cache);
    boolean isKnown = all != 0 && own != 0 && System.nanoTime() - validUntilNanos < 0;
    return isKnown ? all + "." + own : null;
  }

  /**
   * Returns whether a generation is the first one of its cache, before which nothing was flushed. It may also be the
   * first since the server has lost all generations and no node that knew them was running.
   */
  static boolean isFirst(String generation) {
    int dot = generation.indexOf('.');
    long all = Long.parseLong(generation.substring(0, dot));
    return all % FIRST_MILLIS == 0 && Long.parseLong(generation.substring(dot + 1)) % FIRST_MILLIS == 0;
  }

  /** Returns when a generation began, in milliseconds since 1970. */
  static long millis(String generation) {
    int dot = generation.indexOf('.');
    return Math.max(Long.parseLong(generation.substring(0, dot)), Long.parseLong(generation.substring(dot + 1)));
  }

  /**
   * Raises the generation of a cache, or of {@link #ALL}. The new generation holds here at once, and on other nodes
   * once this node and then the others have polled.
   */
  synchronized void raise(String cache) {
    raised.add(cache);
    seen.compute(cache, (any, was) -> newer(was == null ? 0 : was));
    raisedNanos = System.nanoTime(); // a poll that began before may have missed it
  }

  private static long newer(long than) {
    return flushed(Math.max(System.currentTimeMillis(), than + 1));
  }

  /** Returns the least number from this one on that is not the first generation of a cache. */
  private static long flushed(long number) {
    return number % FIRST_MILLIS == 0 ? number + 1 : number;
  }

  /**
   * Reads all generations, and writes those that are newer here. Returns how long the reads took, in nanoseconds.
   *
   * @throws TimeoutException if the server does not answer
   * @throws RuntimeException if there is no connection, or the server refuses a command
   */
  long poll(Client client) throws TimeoutException {
    long start = System.nanoTime();
    List<String> caches = new ArrayList<>(seen.keySet());
    byte[][] names = caches.stream().map(cache -> EntryKeys.generation(namespace, cache)).toArray(byte[][]::new);
    long[] numbers = new long[names.length];
    try (Calls calls = new Calls(client.get(names))) {
      for (int i = 0; i < calls.size(); i++) {
        numbers[i] = number(answer(client, calls.get(i), names[i], start));
      }
    }
    long took = System.nanoTime() - start;
    boolean hasAll = true;
    for (int i = 0; i < names.length; i++) {
      hasAll &= take(client, caches.get(i), names[i], numbers[i]);
    }
    validUntilNanos = start + VALID_NANOS;
    if (hasAll) {
      completeNanos = start;
    }
    return took;
  }

  private static Object answer(Client client, Call call, byte[] name, long start) throws TimeoutException {
    try {
      return call.await(ANSWER_NANOS_MAX - (System.nanoTime() - start));
    } catch (JedisDataException e) {
      client.refused(name, e);
      throw e;
    }
  }

  /**
   * Returns whether nothing was raised here, or a poll since the last {@link #raise} has found all generations of this
   * node on the server.
   */
  boolean isTold() {
    return completeNanos - raisedNanos >= 0;
  }

  /** Takes over what the server has; what it lacks is written. Returns whether it lacked nothing. */
  private boolean take(Client client, String cache, byte[] name, long onServer) throws TimeoutException {
    // Another node may have raised it to the same number, or a higher one, before this node did.
    long least = raised.remove(cache) ? flushed(onServer + 1) : onServer;
    long here = seen.merge(cache, least, Math::max);
    if (here == 0) {
      here = seen.merge(cache, System.currentTimeMillis() / FIRST_MILLIS * FIRST_MILLIS, Math::max);
    }
    if (here == onServer) {
      return true;
    }
    if (onServer == 0) {
      write(client, name, here, "NX"); // another node may write one now, which then stands
      return false;
    }
    // Another node may have written a higher number since it was read. That one must stand, or nodes would miss a flush.
    for (int i = 0; i < WRITES_MAX; i++) {
      long replaced = number(replace(client, name, here));
      if (replaced <= here) {
        break;
      }
      here = seen.merge(cache, replaced, Math::max);
    }
    return false;
  }

  /** Writes a generation. Returns what it has replaced, or nothing if the server, before Redis 6.2, does not tell. */
  private static Object replace(Client client, byte[] name, long number) throws TimeoutException {
    try {
      return write(client, name, number, "GET");
    } catch (JedisDataException e) {
      if (!String.valueOf(e.getMessage()).contains("syntax")) {
        throw e;
      }
      write(client, name, number, null);
      return null;
    }
  }

  /** Writes a generation. Returns the server's answer. */
  private static Object write(Client client, byte[] name, long number, String how) throws TimeoutException {
    CommandArguments set =
        new CommandArguments(Protocol.Command.SET).key(name).add(Long.toString(number).getBytes(US_ASCII));
    if (how != null) {
      set.add(how.getBytes(US_ASCII));
    }
    try (Call call = client.send(set, name)) {
      return answer(client, call, name, System.nanoTime());
    }
  }

  /**
   * Parses a generation. Returns 0 if the server has none, and {@link #DAMAGED} if what it has is not a generation,
   * so that it is replaced.
   */
  private static long number(Object answer) {
    if (!(answer instanceof byte[] text)) {
      return 0;
    }
    if (text.length == 0 || text.length > DIGITS_MAX) {
      return DAMAGED;
    }
    long number = 0;
    for (byte digit : text) {
      if (digit < '0' || digit > '9') {
        return DAMAGED;
      }
      number = number * 10 + digit - '0';
    }
    return number > System.currentTimeMillis() + AHEAD_MILLIS_MAX ? DAMAGED : number;
  }
}

package org.refdb.gerrit.cache.shared;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.refdb.gerrit.cache.shared.Counts.Event;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisRedirectionException;

/**
 * The shared tier of one cache, in bytes. Only {@link #ask}, {@link #awaitOther} and {@link #read} wait for the server,
 * for a bounded time, and only {@link #read} throws because of it.
 */
public final class SharedTier {
  /** For each group of so many keys that are asked for at once, a request may wait {@link Patience#nanos} longer. */
  private static final int KEYS_PER_DEADLINE = 16;

  /** A wait below this is no use, as an answer takes longer. */
  private static final long WAIT_NANOS_MIN = TimeUnit.MICROSECONDS.toNanos(50);

  /** A thread that wakes so much later than it wanted to shows that this process was paused, as by its collector. */
  private static final long STALL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  /** How long {@link #read} waits. */
  private static final long READ_NANOS_MAX = TimeUnit.SECONDS.toNanos(1);

  /** How many invalidated keys are remembered. Single invalidations are rare in caches that may be shared. */
  private static final int CHANGED_MAX = 10_000;

  private final SharedCaches caches;
  private final String cache;
  private final EntryKeys names;
  private final OfferTime offerTime;
  private final boolean isDetermined;
  private final Class<?> javaType;
  private final boolean hasJavaKeys;
  private final Counts counts = new Counts();
  private final Leases leases;

  /**
   * The keys that were invalidated here, of which the server may still have an older value, each with the number of its
   * last invalidation.
   */
  private final Map<ByteBuffer, Long> changed = new ConcurrentHashMap<>();
  private final AtomicLong changes = new AtomicLong();

  /**
   * Where the value of a key is to be stored once it is loaded. It belongs to the {@linkplain Generations generation}
   * before the load, so a value that was loaded before a flush is never found after it.
   */
  public static final class Place {
    private final byte[] name;

    /** When the lease of the value (see {@link Leases}) ends if this node has it: a {@link System#nanoTime}; else 0. */
    long leaseEndsNanos;

    /** What tells the lease of this node from that of another. */
    byte[] leaseToken;

    private Place(byte[] name) {
      this.name = name;
    }

    /** Returns the name of the lease, which no entry has. */
    byte[] lease() {
      byte[] lease = Arrays.copyOf(name, name.length + 1);
      lease[name.length] = '+';
      return lease;
    }
  }

  /**
   * What came of a look-up.
   *
   * @param place where the value is, or is to be stored; null if it is not to be stored
   * @param value the value; null if none was found
   * @param createdMillis when it was created, in milliseconds since 1970
   */
  public record Answer(Place place, byte[] value, long createdMillis) {
    private static final Answer NONE = new Answer(null, null, 0);

    private static Answer missing(byte[] name) {
      return new Answer(new Place(name), null, 0);
    }
  }

  /**
   * Creates the tier of a cache.
   *
   * @param offerTime from when on values that this node has may be offered
   * @param isDetermined whether a key determines its value, so that values that are put are shared too
   * @param javaType the only class that a value may have, if Java deserialises values; else null
   * @param hasJavaKeys whether Java deserialises keys, which are then never read from the server
   */
  SharedTier(
      SharedCaches caches,
      String cache,
      EntryKeys names,
      OfferTime offerTime,
      boolean isDetermined,
      Class<?> javaType,
      boolean hasJavaKeys) {
    this.caches = caches;
    this.cache = cache;
    this.names = names;
    this.offerTime = offerTime;
    this.isDetermined = isDetermined;
    this.javaType = javaType;
    this.hasJavaKeys = hasJavaKeys;
    this.leases = caches.settings().hasLeases() ? new Leases(caches, counts) : null;
  }

  /** Returns what has happened so far. */
  public Counts counts() {
    return counts;
  }

  /** Asks for the values of some keys, all at once. Returns an answer for each. */
  public Answer[] ask(byte[][] keys) {
    Answer[] answers = new Answer[keys.length];
    Arrays.fill(answers, Answer.NONE);
    // This comes before the generation is read, because a flush raises the generation and then forgets older changes.
    int[] asked = IntStream.range(0, keys.length).filter(i -> !isChanged(keys[i])).toArray();
    String generation = caches.breaker().isOpen() ? null : caches.generations().of(cache);
    if (generation == null || Thread.currentThread().isInterrupted()) {
      counts.add(Event.NOT_ASKED, keys.length);
      return answers;
    }
    for (int i : asked) {
      answers[i] = Answer.missing(names.of(generation, keys[i]));
    }
    askFor(keys, answers, asked);
    return answers;
  }

  /**
   * Waits while another node computes a value, if the site wants that and loads take long, for no longer than a load
   * takes on average, and 5 s at most. If no other node computes it, takes the lease and returns at once. Returns the
   * value if it has come; else the caller computes it, with {@link #compute}.
   *
   * @param missing the answer that there is no value
   */
  public Answer awaitOther(Answer missing, byte[] key) {
    return leases == null ? missing : leases.await(missing, () -> ask(new byte[][] {key})[0]);
  }

  /**
   * Runs the loader of the cache, and lets no other node wait for a value that does not come.
   *
   * @param place where the value is to be stored; null if nowhere
   */
  public <V> V compute(Place place, Callable<? extends V> loader) throws Exception {
    if (leases == null) {
      return loader.call();
    }
    long start = System.nanoTime();
    V value = null;
    try {
      value = loader.call();
      loaded(System.nanoTime() - start);
      return value;
    } finally {
      if (value == null) {
        endLease(place);
      }
    }
  }

  /** Notes how long a load took, where nodes wait for each other. */
  public void loaded(long nanos) {
    if (leases != null) {
      leases.loaded(nanos);
    }
  }

  /** Ends the lease of a value that is not going to be stored, unless the time of the lease is over. */
  public void endLease(Place place) {
    if (place != null && place.leaseEndsNanos != 0 && System.nanoTime() - place.leaseEndsNanos < 0) {
      caches.offers().add(Offers.Offer.leaseEnd(counts, place));
    }
  }

  private boolean isChanged(byte[] key) {
    return !changed.isEmpty() && changed.containsKey(ByteBuffer.wrap(key));
  }

  private void askFor(byte[][] keys, Answer[] answers, int[] asked) {
    Budget budget = caches.budget();
    long allowed = caches.patience().nanos() * (1 + asked.length / KEYS_PER_DEADLINE);
    long left = budget.left();
    long wait = Math.min(allowed, left);
    if (wait < WAIT_NANOS_MIN) {
      counts.add(Event.OUT_OF_BUDGET, asked.length);
      return;
    }
    long start = System.nanoTime();
    byte[][] entryNames = Arrays.stream(asked).mapToObj(i -> answers[i].place.name).toArray(byte[][]::new);
    boolean isLate;
    try (Calls calls = new Calls(caches.client().ask(entryNames, start + wait))) {
      isLate = take(calls, keys, answers, asked, start, wait, left < allowed);
    }
    long waited = System.nanoTime() - start;
    budget.waited(waited);
    if (!isLate) {
      caches.breaker().inTime();
    } else if (left >= allowed && waited < wait + STALL_NANOS) {
      caches.patience().late();
      caches.breaker().late();
    }
  }

  /** Takes the answers that come in time. Returns whether one did not. */
  private boolean take(
      Calls calls, byte[][] keys, Answer[] answers, int[] asked, long start, long wait, boolean isShort) {
    boolean isLate = false;
    for (int i = 0; i < calls.size(); i++) {
      try {
        Object entry = calls.get(i).await(wait - (System.nanoTime() - start));
        if (i == 0) {
          caches.patience().answered(calls.get(i).answeredNanos() - start);
        }
        answers[asked[i]] = opened(answers[asked[i]], keys[asked[i]], entry);
      } catch (TimeoutException e) {
        isLate = true;
        counts.one(isShort ? Event.OUT_OF_BUDGET : Event.LATE);
      } catch (RuntimeException e) { // no connection, or the server's own words
        counts.one(Event.FAILED);
        failed(answers[asked[i]].place.name, e);
      }
    }
    return isLate;
  }

  private void failed(byte[] name, RuntimeException cause) {
    if (cause instanceof ConnectingException) {
      return;
    }
    if (cause instanceof JedisDataException words) {
      caches.client().refused(name, words);
      if (words instanceof JedisRedirectionException || String.valueOf(words.getMessage()).startsWith("WRONGTYPE")) {
        return; // other keys may be well
      }
    }
    caches.breaker().failed(cause);
  }

  /** Returns whether keys may be read from the server. */
  public boolean canRead() {
    return !hasJavaKeys;
  }

  /**
   * An entry that was read by its name.
   *
   * @param key the key as bytes; the entry was read by the name of this key in the present generation
   * @param answer the value
   */
  public record Entry(byte[] key, Answer answer) {}

  /**
   * Reads entries by their names, on a thread that may wait. Returns the intact ones of this cache in its present
   * generation whose keys were not invalidated here, or none if the generation has changed or is unknown afterwards.
   *
   * @throws IOException if the server fails, refuses or does not answer within a second, if the generation is not known
   *     at the moment, or if {@link #canRead} is false
   */
  public List<Entry> read(List<byte[]> entryNames) throws IOException {
    String generation = caches.generations().of(cache);
    if (generation == null || !canRead()) {
      throw new IOException("the shared cache is not in use, or must not be read by its names");
    }
    List<Entry> entries = new ArrayList<>();
    long end = System.nanoTime() + READ_NANOS_MAX;
    try (Calls calls = new Calls(caches.client().get(entryNames.toArray(byte[][]::new)))) {
      for (int i = 0; i < calls.size(); i++) {
        Entry entry = entry(generation, entryNames.get(i), calls.get(i).await(end - System.nanoTime()));
        if (entry != null) {
          entries.add(entry);
        }
      }
    } catch (TimeoutException | JedisException e) {
      throw new IOException("the shared cache does not answer: " + e.getMessage(), e);
    }
    // A flush meanwhile has forgotten which keys were changed before it, so older values may be among these entries.
    return generation.equals(caches.generations().of(cache)) ? entries : List.of();
  }

  private Entry entry(String generation, byte[] name, Object entry) {
    try {
      if (!(entry instanceof byte[] bytes)) {
        return null; // gone meanwhile
      }
      EntryFormat.Value value = caches.format().decode(name, bytes);
      boolean isOurs = Arrays.equals(names.of(generation, value.key()), name) && !isChanged(value.key());
      return isOurs ? new Entry(value.key(), new Answer(new Place(name), value.bytes(), value.createdMillis())) : null;
    } catch (EntryFormat.BadEntryException e) {
      return null; // another node's format or key, or forged, which is counted when its key is looked up
    }
  }

  private Answer opened(Answer missing, byte[] key, Object entry) {
    if (!(entry instanceof byte[] bytes)) {
      counts.one(Event.MISSES);
      return missing;
    }
    counts.add(Event.BYTES_RECEIVED, bytes.length);
    try {
      EntryFormat.Value value = caches.format().decode(missing.place.name, key, bytes);
      counts.one(Event.HITS);
      return new Answer(missing.place, value.bytes(), value.createdMillis());
    } catch (EntryFormat.BadEntryException e) {
      counts.one(e.isOfUnknownKey ? Event.REFUSED_KEY : Event.REFUSED_BAD);
      if (!e.isOfUnknownKey) { // such an entry may be good for the nodes that have the key
        delete(missing.place.name);
      }
      return missing;
    }
  }

  /** Returns whether a value that was found may be deserialised. */
  public boolean accepts(byte[] value) {
    return javaType == null || JavaFilter.accepts(value, javaType);
  }

  /** Deletes a value that was found but cannot, or must not, be deserialised. */
  public void refuse(Answer answer) {
    counts.one(Event.REFUSED_CONTENT);
    delete(answer.place.name);
  }

  private void delete(byte[] name) {
    caches.offers().add(Offers.Offer.deletion(counts, name, null));
  }

  /**
   * Offers a loaded value to the other nodes or, if it must not be offered, ends its lease. The caller must see to it
   * that no other thread calls {@link #changed} for the key meanwhile.
   */
  public void offer(Place place, byte[] key, Object value, byte[] valueBytes, long createdMillis) {
    if (place == null) {
      return;
    }
    if (isChanged(key)) {
      endLease(place);
    } else if (Verdicts.isNegative(value)) {
      counts.one(Event.NEGATIVE);
      endLease(place);
    } else if (EntryFormat.size(key.length, valueBytes.length) > caches.settings().valueBytesMax()) {
      counts.one(Event.TOO_LARGE);
      endLease(place);
    } else {
      caches.offers().add(new Offers.Offer(counts, place.name, key, valueBytes, createdMillis, false, null, null));
    }
  }

  /**
   * Offers a value that this node has had for some time, unless the server has one. The caller must see to it that no
   * other thread calls {@link #changed} for the key meanwhile. Returns whether it was offered, which it is not if the
   * generation is unknown, the key was invalidated here, or the value is too large, is the result of a timeout or an
   * error, or is too old, see {@link OfferTime}.
   */
  public boolean offerHeld(byte[] key, Object value, byte[] valueBytes, long createdMillis) {
    String generation = caches.generations().of(cache);
    boolean mayBe =
        generation != null
            && createdMillis > offerTime.fromMillis(generation)
            && !isChanged(key)
            && !Verdicts.isNegative(value)
            && EntryFormat.size(key.length, valueBytes.length) <= caches.settings().valueBytesMax();
    if (mayBe) {
      byte[] name = names.of(generation, key);
      caches.offers().add(new Offers.Offer(counts, name, key, valueBytes, createdMillis, true, null, null));
    }
    return mayBe;
  }

  /** Notes the present generation, so that this node knows after a restart whether there was a flush meanwhile. */
  void noteGeneration() {
    String generation = caches.generations().of(cache);
    if (generation != null) {
      offerTime.fromMillis(generation);
    }
  }

  /**
   * Offers a value that was put, if the generation is known. If keys do not determine values here, calls {@link
   * #changed} instead.
   */
  public void put(byte[] key, Object value, byte[] valueBytes, long createdMillis) {
    if (!isDetermined) {
      changed(key);
      return;
    }
    String generation = caches.generations().of(cache);
    if (generation != null) {
      offer(new Place(names.of(generation, key)), key, value, valueBytes, createdMillis);
    }
  }

  /**
   * Notes that the value of a key is void: this node no longer asks for it until a flush, and asks the server to delete
   * it. If that cannot be done, because the server fails or too many changes wait for it, all values of the cache are
   * voided, since this node itself would use the value after a restart. If this node is killed, or stops while the
   * server does not answer, which is logged, the server may keep the value. After 10 000 such keys, the next one voids
   * all values too.
   */
  public void changed(byte[] key) {
    if (changed.size() >= CHANGED_MAX) {
      flush();
      return;
    }
    changed.put(ByteBuffer.wrap(key), changes.incrementAndGet());
    String generation = caches.generations().of(cache);
    if (generation == null) {
      caches.raise(cache);
    } else {
      byte[] name = names.of(generation, key);
      caches.offers().add(Offers.Offer.deletion(counts, name, () -> caches.raise(cache)));
    }
  }

  /**
   * Voids all values of the cache: here at once, and on the other nodes within five seconds or, if the server does not
   * answer, once it does.
   */
  public void flush() {
    long before = changes.get();
    caches.raise(cache);
    changed.values().removeIf(change -> change <= before); // what was loaded before is of an older generation
  }
}

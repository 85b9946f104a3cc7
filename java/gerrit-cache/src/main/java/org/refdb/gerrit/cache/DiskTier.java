package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.cache.PersistentCache.DiskStats;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.gerrit.server.util.time.TimeUtil;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.refdb.engine.Cache;
import org.refdb.engine.Planted;
import org.refdb.gerrit.cache.shared.SharedTier;
import org.refdb.gerrit.cache.store.Store;

/**
 * Stores the objects of one cache in a {@link Store}: serialises them, orders changes, and counts calls. A failure of
 * the store at a look-up or a change becomes a miss or a warning, because a cache must never break a request.
 */
final class DiskTier<K, V> {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** Maximum time for which a value of a cache that is not durable waits for room. */
  private static final Duration PUT_TIMEOUT = Duration.ofMillis(200);

  /** Maximum time for which a value of a durable cache waits for room. */
  private static final Duration DURABLE_PUT_TIMEOUT = Duration.ofSeconds(30);
  private static final Duration REST = Duration.ofMillis(1);
  private static final String CANNOT_STORE = "Cannot store an entry of cache %s";

  private final String name;
  private final StoreHandle stores;
  private final KeyCodec<K> keys;
  private final CacheSerializer<V> values;
  private final Ages ages;
  private final boolean durable;
  private final SharedValues<K, V> shared;
  private final Cache.Reader<Holder<V>> decoder = this::decode;
  private final ChangeClock clock = new ChangeClock();
  private final LongAdder hits = new LongAdder();
  private final LongAdder misses = new LongAdder();
  private final LongAdder invalidated = new LongAdder();
  final Latency readLatency = new Latency();
  final Latency writeLatency = new Latency();

  /**
   * Creates the disk tier of one cache.
   *
   * @param stores the store of the bytes
   * @param durable whether a call waits until its change is on disk, as for login sessions and tokens
   * @param shared the values of other servers; null if the cache is not shared
   */
  DiskTier(PersistentCacheDef<K, V> def, StoreHandle stores, Ages ages, boolean durable, SharedValues<K, V> shared) {
    this.name = def.name();
    this.stores = stores;
    this.keys = KeyCodec.of(def);
    this.values = Planted.ON ? PlantedCaches.serializer(def) : def.valueSerializer();
    this.ages = ages;
    this.durable = durable;
    this.shared = shared;
  }

  long now() {
    return clock.now();
  }

  long lastChange(K key) {
    return clock.lastChange(key);
  }

  long lastChangeOfAll() {
    return clock.lastChangeOfAll();
  }

  Ages ages() {
    return ages;
  }

  /** Returns the stored value; null if it is absent, expired or unreadable, or the store fails. */
  Holder<V> read(K key) {
    long tick = clock.now();
    long start = System.nanoTime();
    Holder<V> found = null;
    try {
      Store store = stores.get();
      if (Planted.ON && Planted.is("caches-20")) {
        store.upkeep().verify();
      }
      found =
          CacheAccess.Recorder.isOn()
              ? new CacheAccess(name).lookUp(() -> keys.encode(key), store, decoder)
              : store.get(keys.encode(key), decoder);
    } catch (RuntimeException e) {
      warn(e, "Cannot read an entry of cache %s; it is loaded anew");
    }
    if (found != null) {
      found.readAt(tick);
    }
    boolean isMiss = found == null && !(Planted.ON && Planted.is("caches-02"));
    (isMiss ? misses : hits).increment();
    readLatency.record(System.nanoTime() - start);
    return found;
  }

  /**
   * Asks the shared tier for values that are not stored here, and stores what it finds as {@link #keepFound} does.
   * Returns one answer for each key.
   */
  List<SharedValues.Asked<K, V>> askOthers(List<K> absent) {
    if (shared == null) {
      return absent.stream().map(SharedValues.Asked::<K, V>nothing).toList();
    }
    List<SharedValues.Asked<K, V>> answers = shared.ask(absent, clock.now());
    answers.forEach(this::keepFound);
    return answers;
  }

  /**
   * Asks the shared tier for one value as {@link #askOthers} does. If that tier has none, this may wait while another
   * server computes the value, see {@link SharedTier#awaitOther}. If nothing is found then, the caller computes the
   * value with {@link #compute}.
   */
  SharedValues.Asked<K, V> askOrAwaitOthers(K key) {
    SharedValues.Asked<K, V> asked = askOthers(List.of(key)).getFirst();
    if (shared == null || asked.found() != null) {
      return asked;
    }
    SharedValues.Asked<K, V> answer = shared.awaitOther(asked, clock.now());
    keepFound(answer);
    return answer;
  }

  /**
   * Stores the value of another server that a look-up found. Returns what came of the attempt; null if the look-up
   * found none, the key was changed since, or the store fails.
   */
  Store.Placed keepFound(SharedValues.Asked<K, V> answer) {
    Holder<V> found = answer.found();
    if (found == null) {
      return null;
    }
    Entry entry = new Entry(answer.keyBytes(), answer.valueBytes(), found.createdMillis);
    return finish(answer.key(), entry, found.tick(), Store.Placed.NO_ROOM);
  }

  /**
   * Offers the shared tier a value that is stored here, unless the value is too old, its key was changed since the
   * value was read, or {@link SharedTier#offerHeld} refuses it. Returns whether it was offered.
   */
  boolean offerHeld(K key, Holder<V> held, byte[] keyBytes, byte[] valueBytes) {
    synchronized (clock.lockOf(key)) { // so that a change of the key comes before this or after it
      return !ages.isExpired(held.createdMillis, TimeUtil.nowMs())
          && Math.max(clock.lastChange(key), clock.lastChangeOfAll()) <= held.tick()
          && shared.tier().offerHeld(keyBytes, held.value, valueBytes, held.createdMillis);
    }
  }

  /** Runs the loader of the cache for a value that was not found. */
  V compute(SharedTier.Place place, Callable<? extends V> loader) throws Exception {
    return shared == null ? loader.call() : shared.tier().compute(place, loader);
  }

  /** Returns the value that is stored here or, if the cache is shared, in the shared tier; null if none is found. */
  Holder<V> find(K key) {
    Holder<V> stored = read(key);
    return stored != null ? stored : askOthers(List.of(key)).getFirst().found();
  }

  private Holder<V> decode(byte[] value, long createdMillis) {
    return ages.isExpired(createdMillis, TimeUtil.nowMs()) ? null : new Holder<>(values.deserialize(value), createdMillis);
  }

  /**
   * Reads one stored entry so that the classes of the serialisers of the cache are loaded, which takes longer than
   * thousands of reads and would delay the first request. The store counts this as a read, and Gerrit does not. A
   * store that has been released is not reopened.
   */
  void warmUp() {
    try {
      Store store = stores.held();
      if (store == null) {
        return;
      }
      store.upkeep().forEach((key, value, createdMillis, uses, diskBytes) -> {
        byte[] keyBytes = keys.encode(keys.decode(key));
        store.get(keyBytes, decoder);
        return false;
      });
    } catch (RuntimeException e) {
      logger.atFine().withCause(e).log("Cache %s is not warmed up", name);
    }
  }

  /** A serialised entry. */
  private record Entry(byte[] key, byte[] value, long createdMillis) {}

  /** Serialises an entry. Returns null and logs a warning if Gerrit cannot serialise it. */
  private Entry encode(K key, V value, long createdMillis) {
    try {
      byte[] keyBytes = keys.encode(key);
      byte[] valueBytes = values.serialize(value);
      if (Planted.ON && PlantedCaches.refuses(stores, key, keyBytes.length + valueBytes.length)) {
        return null;
      }
      return new Entry(keyBytes, valueBytes, createdMillis);
    } catch (RuntimeException e) {
      warn(e, CANNOT_STORE);
      return null;
    }
  }

  /**
   * Stores a loaded value, here and for other servers, unless its key was changed since the load began.
   *
   * @param place where other servers find it; null if they do not
   */
  void keepLoaded(K key, Holder<V> loaded, SharedTier.Place place) {
    long start = System.nanoTime();
    Entry entry = encode(key, loaded.value, loaded.createdMillis);
    if (entry != null) {
      finish(key, entry, loaded.tick(), Store.Placed.NO_ROOM);
    }
    if (place != null) {
      synchronized (clock.lockOf(key)) { // so that a change of the key comes before this or after it
        if (entry != null && clock.lastChange(key) <= loaded.tick()) {
          shared.tier().offer(place, entry.key, loaded.value, entry.value, loaded.createdMillis);
        } else {
          shared.tier().endLease(place);
        }
      }
    }
    writeLatency.record(System.nanoTime() - start);
  }

  /** Stores a value that the caller provides, or removes the older one if that fails. Returns the value's holder. */
  Holder<V> put(K key, V value) {
    long start = System.nanoTime();
    long created = TimeUtil.nowMs();
    Entry entry = encode(key, value, created);
    Store.Placed placed;
    long tick;
    synchronized (clock.lockOf(key)) {
      placed = entry == null ? null : place(entry);
      if (placed == null) { // the new value cannot be stored, but at least the older one must go
        remove(key);
      } else if (shared != null) {
        shared.tier().put(entry.key, value, entry.value, created);
      }
      tick = clock.advance(key);
    }
    if (placed != null) {
      finish(key, entry, tick, placed);
    } else if (durable) {
      settle();
    }
    writeLatency.record(System.nanoTime() - start);
    return new Holder<>(value, created, tick);
  }

  /** Places the entry in the order of changes. Returns null and logs a warning if the store fails. */
  private Store.Placed place(Entry entry) {
    try {
      return stores.get().place(entry.key, entry.value, entry.createdMillis, durable);
    } catch (RuntimeException e) {
      warn(e, CANNOT_STORE);
      return null;
    }
  }

  /**
   * Waits for room if there was none, and for the disk if the cache is durable, without holding the lock of the
   * stripe. A change of the key after {@code tick} takes precedence.
   *
   * @param first the result of placing the entry; NO_ROOM also if that was not tried yet
   * @return what came of it; null if a later change takes precedence, or the store fails
   */
  private Store.Placed finish(K key, Entry entry, long tick, Store.Placed first) {
    Store.Placed placed = first;
    long end = System.nanoTime() + (durable ? DURABLE_PUT_TIMEOUT : PUT_TIMEOUT).toNanos();
    boolean waits = true;
    while (placed == Store.Placed.NO_ROOM && waits) {
      synchronized (clock.lockOf(key)) {
        boolean isCurrent = clock.lastChange(key) <= tick || Planted.ON && Planted.is("caches-04");
        placed = isCurrent ? place(entry) : null;
      }
      waits = placed == Store.Placed.NO_ROOM && System.nanoTime() < end && rest();
    }
    if (durable) { // if the value was refused, the older one is gone, which must be durable too
      settle();
    }
    return placed;
  }

  /** Pauses so that the store can make room. Returns false if this thread was interrupted. */
  private static boolean rest() {
    LockSupport.parkNanos(REST.toNanos());
    return !Thread.currentThread().isInterrupted();
  }

  private void settle() {
    quietly("Cannot make a change of cache %s durable", () -> stores.get().settle());
  }

  /** Removes the value of a key. No load that began earlier can bring the value back. */
  void invalidate(K key) {
    long start = System.nanoTime();
    synchronized (clock.lockOf(key)) {
      remove(key);
      clock.advance(key);
    }
    if (durable) {
      settle();
    }
    invalidated.increment();
    writeLatency.record(System.nanoTime() - start);
  }

  private void remove(K key) {
    if (Planted.ON && Planted.is("caches-03")) {
      stores.get().put(keys.encode(key), new byte[0], 0, false);
      return;
    }
    quietly("Cannot invalidate an entry of cache %s", () -> {
      byte[] keyBytes = keys.encode(key);
      if (shared != null) {
        shared.tier().changed(keyBytes);
      }
      stores.get().invalidate(keyBytes, false);
    });
  }

  /** Removes every value. */
  void invalidateAll() {
    if (shared != null) {
      // A look-up may find an old value in the shared tier until this change ends. The value is then older than the
      // change below, so it is not stored after the store was emptied.
      clock.changeAll(shared.tier()::flush);
    }
    clock.changeAll(() -> quietly("Cannot empty cache %s", () -> stores.get().clear(durable)));
    invalidated.increment();
  }

  DiskStats stats() {
    Store.Stats stats = stores.get().stats();
    return new DiskStats(stats.entries(), stats.liveBytes(), hits.sum(), misses.sum(), invalidated.sum());
  }

  Store.Stats storeStats() {
    return stores.get().stats();
  }

  /** Returns the values of other servers; null if the cache is not shared. */
  SharedValues<K, V> shared() {
    return shared;
  }

  StoreHandle stores() {
    return stores;
  }

  String name() {
    return name;
  }

  /** Returns whether keys or values are secrets, which is so for the durable caches of sessions and tokens. */
  boolean isSecret() {
    return durable;
  }

  private void quietly(String message, Runnable action) {
    try {
      action.run();
    } catch (RuntimeException e) {
      warn(e, message);
    }
  }

  private void warn(RuntimeException cause, String message) {
    logger.atWarning().withCause(cause).atMostEvery(1, TimeUnit.MINUTES).log(message, name);
  }

  /**
   * The maximum ages of values.
   *
   * @param expireAfter the age from which every tier treats a value as absent; null for never
   * @param refreshAfter the age from which a read reloads the value in the background; null for never
   */
  record Ages(Duration expireAfter, Duration refreshAfter) {
    /**
     * The tolerated difference, in milliseconds, between the clocks of machines that exchange entries. The engine has
     * the same constant.
     */
    private static final long SKEW_MILLIS = 60_000;

    boolean isExpired(long createdMillis, long nowMillis) {
      return expireAfter != null && isPast(expireAfter.toMillis(), createdMillis, nowMillis);
    }

    boolean isDueForRefresh(long createdMillis, long nowMillis) {
      return refreshAfter != null && isPast(refreshAfter.toMillis(), createdMillis, nowMillis);
    }

    /**
     * Returns whether a value is too old. A value from further in the future than clocks may differ, or than the maximum
     * age if that is less, counts as too old, because the clock that set its time was wrong and its real age is unknown.
     */
    private static boolean isPast(long maxMillis, long createdMillis, long nowMillis) {
      long age = nowMillis - createdMillis;
      return age >= maxMillis || age < -Math.min(SKEW_MILLIS, maxMillis);
    }
  }
}

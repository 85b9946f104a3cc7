package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.cache.PersistentCache.DiskStats;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.gerrit.server.util.time.TimeUtil;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.refdb.engine.Cache;
import org.refdb.engine.Planted;
import org.refdb.gerrit.cache.store.Store;

/**
 * One cache's objects in a {@link Store}: serialises them, orders changes, and counts. Every failure becomes a miss or a
 * warning, since a cache must never break the request that asks it.
 */
final class DiskTier<K, V> {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** How long a value waits for room. */
  private static final Duration PUT_TIMEOUT = Duration.ofMillis(200);

  /** The same, of a cache whose changes are durable. */
  private static final Duration DURABLE_PUT_TIMEOUT = Duration.ofSeconds(30);
  private static final Duration REST = Duration.ofMillis(1);
  private static final String CANNOT_STORE = "Cannot store an entry of cache %s";

  private final String name;
  private final StoreHandle stores;
  private final KeyCodec<K> keys;
  private final CacheSerializer<V> values;
  private final Ages ages;
  private final boolean durable;
  private final Cache.Reader<Holder<V>> decoder = this::decode;
  private final ChangeClock clock = new ChangeClock();
  private final LongAdder hits = new LongAdder();
  private final LongAdder misses = new LongAdder();
  private final LongAdder invalidated = new LongAdder();
  final Latency readLatency = new Latency();
  final Latency writeLatency = new Latency();

  /**
   * Makes the disk tier of one cache.
   *
   * @param stores where the bytes go
   * @param durable a change is on the disk before the call returns (login sessions, tokens)
   */
  DiskTier(PersistentCacheDef<K, V> def, StoreHandle stores, Ages ages, boolean durable) {
    this.name = def.name();
    this.stores = stores;
    this.keys = KeyCodec.of(def);
    this.values = Planted.ON ? PlantedCaches.serializer(def) : def.valueSerializer();
    this.ages = ages;
    this.durable = durable;
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

  /** The stored value, or null: absent, too old, or not readable. */
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

  private Holder<V> decode(byte[] value, long createdMillis) {
    return ages.isExpired(createdMillis, TimeUtil.nowMs()) ? null : new Holder<>(values.deserialize(value), createdMillis);
  }

  /**
   * Reads one stored entry to load the classes of the cache's serializers. That takes longer than thousands of reads, and
   * the first request is spared it. The store counts it as a read, Gerrit does not. A store that was released meanwhile
   * stays closed.
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

  /** An entry as the store takes it. */
  private record Entry(byte[] key, byte[] value, long createdMillis) {}

  /** Null, and a warning, if Gerrit cannot serialise it. */
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

  /** Keeps a loaded value, unless its key was changed since the load began. */
  void keepLoaded(K key, Holder<V> loaded) {
    long start = System.nanoTime();
    Entry entry = encode(key, loaded.value, loaded.createdMillis);
    if (entry != null) {
      finish(key, entry, loaded.tick(), Store.Placed.NO_ROOM);
    }
    writeLatency.record(System.nanoTime() - start);
  }

  /** Keeps a value the caller gave; returns its holder. */
  Holder<V> put(K key, V value) {
    long start = System.nanoTime();
    long created = TimeUtil.nowMs();
    Entry entry = encode(key, value, created);
    Store.Placed placed;
    long tick;
    synchronized (clock.lockOf(key)) {
      placed = entry == null ? null : place(entry);
      if (placed == null) { // at least the older value must not live on
        remove(key);
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

  /** Takes the entry's place in the order of changes; null, and a warning, if the store fails. */
  private Store.Placed place(Entry entry) {
    try {
      return stores.get().place(entry.key, entry.value, entry.createdMillis, durable);
    } catch (RuntimeException e) {
      warn(e, CANNOT_STORE);
      return null;
    }
  }

  /**
   * Waits for room where there was none, and for the disk where the cache is durable; without the stripe's lock. A change of
   * the key after {@code tick} wins.
   */
  private void finish(K key, Entry entry, long tick, Store.Placed first) {
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
    if (durable) { // where it was refused its older value is gone, which must be durable too
      settle();
    }
  }

  /** Lets the store make room; false if this thread is asked to end. */
  private static boolean rest() {
    LockSupport.parkNanos(REST.toNanos());
    return !Thread.currentThread().isInterrupted();
  }

  private void settle() {
    quietly("Cannot make a change of cache %s durable", () -> stores.get().settle());
  }

  /** Removes a key's value; no load that began earlier can bring it back. */
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
    quietly("Cannot invalidate an entry of cache %s", () -> stores.get().invalidate(keys.encode(key), false));
  }

  /** Removes every value. */
  void invalidateAll() {
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

  StoreHandle stores() {
    return stores;
  }

  String name() {
    return name;
  }

  /** Whether its keys are secrets: caches of sessions and tokens are the durable ones. */
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
   * How old values may get.
   *
   * @param expireAfter from creation until the value is gone, in every tier; null for never
   * @param refreshAfter from creation until a read has it loaded anew behind the reader's back; null for never
   */
  record Ages(Duration expireAfter, Duration refreshAfter) {
    /** Clocks of machines that give each other entries differ a little; the engine allows the same. */
    private static final long SKEW_MILLIS = 60_000;

    boolean isExpired(long createdMillis, long nowMillis) {
      return expireAfter != null && isPast(expireAfter.toMillis(), createdMillis, nowMillis);
    }

    boolean isDueForRefresh(long createdMillis, long nowMillis) {
      return refreshAfter != null && isPast(refreshAfter.toMillis(), createdMillis, nowMillis);
    }

    /** A value from the future comes from a wrong clock. Its age is unknown, so it counts as too old. */
    private static boolean isPast(long maxMillis, long createdMillis, long nowMillis) {
      long age = nowMillis - createdMillis;
      return age >= maxMillis || age < -Math.min(SKEW_MILLIS, maxMillis);
    }
  }
}

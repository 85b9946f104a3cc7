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
import org.refdb.gerrit.cache.store.Store;

/**
 * One cache's objects in a {@link Store}: serialises, orders changes, counts, and turns every failure into a miss or a
 * warning, since a cache must never break the request that asks it.
 */
final class DiskTier<K, V> {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** So long a value waits for room, that of a cache whose changes are durable longer. */
  private static final Duration PATIENCE = Duration.ofMillis(200);

  private static final Duration DURABLE_PATIENCE = Duration.ofSeconds(30);
  private static final Duration REST = Duration.ofMillis(1);

  private final String name;
  private final StoreHandle stores;
  private final KeyCodec<K> keys;
  private final CacheSerializer<V> values;
  private final Ages ages;
  private final boolean durable;
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
    this.values = def.valueSerializer();
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
      byte[] keyBytes = keys.encode(key);
      Store.Entry entry = stores.get().get(keyBytes);
      if (entry != null && !ages.isExpired(entry.createdMillis(), TimeUtil.nowMs())) {
        found = new Holder<>(values.deserialize(entry.value()), entry.createdMillis(), tick);
      }
    } catch (RuntimeException e) {
      warn(e, "Cannot read an entry of cache %s; it is loaded anew");
    }
    (found == null ? misses : hits).increment();
    readLatency.record(System.nanoTime() - start);
    return found;
  }

  /** Keeps a loaded value, unless its key was changed since the load began. */
  void keepLoaded(K key, Holder<V> loaded) {
    write(key, loaded.value, (keyBytes, valueBytes) ->
        placeUnlessChanged(loaded.tick, key, keyBytes, valueBytes, loaded.createdMillis));
  }

  /**
   * Stores a value unless its key was changed after {@code tick}. The place in the order is taken under the lock of the key's
   * stripe; room, and the disk, are waited for without it.
   */
  private void placeUnlessChanged(long tick, K key, byte[] keyBytes, byte[] valueBytes, long created) {
    long end = System.nanoTime() + (durable ? DURABLE_PATIENCE : PATIENCE).toNanos();
    Store.Placed[] placed = {Store.Placed.REFUSED};
    do {
      placed[0] = Store.Placed.REFUSED;
      clock.unlessChangedAfter(tick, key, () -> {
        placed[0] = stores.get().place(keyBytes, valueBytes, created, durable);
        return true;
      });
    } while (placed[0] == Store.Placed.NO_ROOM && System.nanoTime() < end && rest());
    if (durable && placed[0] == Store.Placed.STORED) {
      stores.get().settle();
    }
  }

  /** Lets the store make room; false if this thread is asked to end. */
  private static boolean rest() {
    LockSupport.parkNanos(REST.toNanos());
    return !Thread.currentThread().isInterrupted();
  }

  /** Keeps a value the caller gave; returns its holder. */
  Holder<V> put(K key, V value) {
    long created = TimeUtil.nowMs();
    long[] tick = new long[1];
    write(key, value, (keyBytes, valueBytes) -> {
      Store.Placed[] placed = {Store.Placed.REFUSED};
      tick[0] = clock.change(key, () -> placed[0] = stores.get().place(keyBytes, valueBytes, created, durable));
      if (placed[0] == Store.Placed.NO_ROOM) { // whoever changes the key meanwhile comes after this
        placeUnlessChanged(tick[0], key, keyBytes, valueBytes, created);
      } else if (durable) {
        stores.get().settle();
      }
    });
    if (tick[0] == 0) { // it could not be serialised: at least the older value must not live on
      tick[0] = drop(key);
    }
    return new Holder<>(value, created, tick[0]);
  }

  /** Removes a key's value; no load that began earlier can bring it back. */
  void invalidate(K key) {
    drop(key);
    invalidated.increment();
  }

  private long drop(K key) {
    long start = System.nanoTime();
    long tick = clock.change(key, () -> quietly("Cannot invalidate an entry of cache %s", () ->
        stores.get().invalidate(keys.encode(key), false)));
    if (durable) { // without the stripe's lock
      quietly("Cannot make the invalidation of an entry of cache %s durable", () -> stores.get().settle());
    }
    writeLatency.record(System.nanoTime() - start);
    return tick;
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

  private interface Change {
    void apply(byte[] key, byte[] value);
  }

  private void write(K key, V value, Change change) {
    long start = System.nanoTime();
    quietly("Cannot store an entry of cache %s", () -> {
      byte[] keyBytes = keys.encode(key);
      byte[] valueBytes = values.serialize(value);
      change.apply(keyBytes, valueBytes);
    });
    writeLatency.record(System.nanoTime() - start);
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
    boolean isExpired(long createdMillis, long nowMillis) {
      return expireAfter != null && nowMillis - createdMillis >= expireAfter.toMillis();
    }

    boolean isDueForRefresh(long createdMillis, long nowMillis) {
      return refreshAfter != null && nowMillis - createdMillis >= refreshAfter.toMillis();
    }
  }
}

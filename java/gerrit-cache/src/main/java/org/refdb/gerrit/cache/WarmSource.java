package org.refdb.gerrit.cache;

import com.google.common.cache.Cache;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import java.util.Arrays;
import java.util.Map;
import org.refdb.gerrit.cache.store.NoStore;
import org.refdb.gerrit.cache.store.Store;

/** Offers the values that one cache has in its files, or in memory if it has none, to the servers' shared tier. */
final class WarmSource<K, V> {
  private final DiskTier<K, V> disk;
  private final Cache<K, Holder<V>> memory;
  private final KeyCodec<K> keys;
  private final CacheSerializer<V> values;

  WarmSource(PersistentCacheDef<K, V> def, DiskTier<K, V> disk, Cache<K, Holder<V>> memory) {
    this.disk = disk;
    this.memory = memory;
    this.keys = KeyCodec.of(def);
    this.values = def.valueSerializer();
  }

  String name() {
    return disk.name();
  }

  /** Returns whether this cache may be offered. */
  boolean isShared() {
    return disk.shared() != null;
  }

  /** Hears of each value, and decides when the next is offered, or that none is. */
  interface Pace {
    /** Waits for the time of the next value. Returns false if no more may be offered. */
    boolean goesOn(boolean wasOffered);
  }

  /** Offers the values that may be offered, until {@code pace} ends this. */
  void offerAll(Pace pace) {
    Store store = disk.stores().held();
    if (store == NoStore.INSTANCE) {
      offerMemory(pace);
    } else if (store != null) {
      offerFiles(store, pace);
    }
  }

  private void offerMemory(Pace pace) {
    for (Map.Entry<K, Holder<V>> entry : memory.asMap().entrySet()) {
      if (!pace.goesOn(offer(entry.getKey(), entry.getValue()))) {
        return;
      }
    }
  }

  private boolean offer(K key, Holder<V> holder) {
    try {
      return disk.offerHeld(key, holder, keys.encode(key), values.serialize(holder.value));
    } catch (RuntimeException e) {
      return false; // Gerrit cannot serialise it
    }
  }

  private void offerFiles(Store store, Pace pace) {
    long[] tick = {disk.now()}; // the time before the entry is read
    store
        .upkeep()
        .forEachWithValue(
            (key, value, createdMillis, uses, diskBytes) -> {
              boolean goesOn = pace.goesOn(offer(key, value, createdMillis, tick[0]));
              tick[0] = disk.now();
              return goesOn;
            });
  }

  private boolean offer(byte[] keyBytes, byte[] valueBytes, long createdMillis, long tick) {
    try {
      K key = keys.decode(keyBytes);
      Holder<V> holder = new Holder<>(values.deserialize(valueBytes), createdMillis, tick);
      return Arrays.equals(keys.encode(key), keyBytes) && disk.offerHeld(key, holder, keyBytes, valueBytes);
    } catch (RuntimeException e) {
      return false; // Gerrit cannot read it any more
    }
  }
}

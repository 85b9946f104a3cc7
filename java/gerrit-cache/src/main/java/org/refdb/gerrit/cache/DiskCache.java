package org.refdb.gerrit.cache;

import com.google.common.cache.AbstractLoadingCache;
import com.google.common.cache.Cache;
import com.google.common.cache.CacheStats;
import com.google.common.cache.LoadingCache;
import com.google.common.collect.ImmutableMap;
import com.google.gerrit.server.cache.PersistentCache;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.util.time.TimeUtil;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.refdb.engine.Planted;

/**
 * A Gerrit cache with two tiers: objects in memory, and their serialised bytes on disk. A cache that is shared also
 * asks the other servers before it loads a value.
 *
 * <p>A hit in memory reads nothing from disk. As the memory tier guarantees, concurrent calls of {@code get} for one key
 * share a load, and exceptions are wrapped as in Guava. An invalidation outdates all values that were read or loaded
 * before it (see {@link Holder}): unless the store fails or is read-only, no later call gets such a value from either
 * tier.
 */
final class DiskCache<K, V> extends AbstractLoadingCache<K, V> implements PersistentCache {
  private static final long NO_CALL_UNDER_WAY = Long.MAX_VALUE;

  private final Class<? super K> keyClass;
  private final Cache<K, Holder<V>> memory;
  private final DiskTier<K, V> disk;
  private final boolean hasMemory;
  private final WarmTarget<K, V> warmTarget;
  private final WarmSource<K, V> warmSource;

  /**
   * Creates a cache.
   *
   * @param room the room in the memory tier; null if it keeps nothing, and only lets concurrent calls share a load
   */
  @SuppressWarnings("unchecked")
  DiskCache(
      PersistentCacheDef<K, V> def, Cache<K, Holder<V>> memory, DiskTier<K, V> disk, MemoryRoom<K, V> room) {
    this.keyClass = (Class<? super K>) def.keyType().getRawType();
    this.memory = memory;
    this.disk = disk;
    this.hasMemory = room != null;
    this.warmTarget = new WarmTarget<>(disk, room);
    this.warmSource = new WarmSource<>(def, disk, memory);
  }

  @Override
  public V getIfPresent(Object object) {
    if (!keyClass.isInstance(object)) {
      return null;
    }
    @SuppressWarnings("unchecked")
    K key = (K) object;
    if (Planted.ON && Planted.is("caches-01")) {
      disk.read(key);
    }
    Holder<V> holder = memory.getIfPresent(key);
    if (holder != null && mayServe(key, holder, NO_CALL_UNDER_WAY)) {
      return holder.value;
    }
    holder = disk.find(key);
    if (holder == null) {
      return null;
    }
    memory.put(key, holder);
    mayServe(key, holder, NO_CALL_UNDER_WAY);
    return holder.value;
  }

  @Override
  public V get(K key) throws ExecutionException {
    LoadingCache<K, Holder<V>> loading = loading();
    long start = disk.now();
    while (true) {
      Holder<V> holder = loading.get(key);
      if (mayServe(key, holder, start)) {
        refreshIfDue(loading, key, holder);
        return holder.value;
      }
    }
  }

  @Override
  public V get(K key, Callable<? extends V> loader) throws ExecutionException {
    long start = disk.now();
    while (true) {
      Holder<V> holder = memory.get(key, () -> HolderLoader.load(disk, key, loader));
      if (mayServe(key, holder, start)) {
        return holder.value;
      }
    }
  }

  @Override
  public ImmutableMap<K, V> getAll(Iterable<? extends K> keys) throws ExecutionException {
    LoadingCache<K, Holder<V>> loading = loading();
    long start = disk.now();
    ImmutableMap.Builder<K, V> result = ImmutableMap.builder();
    for (Map.Entry<K, Holder<V>> entry : loading.getAll(keys).entrySet()) {
      K key = entry.getKey();
      Holder<V> holder = entry.getValue();
      if (mayServe(key, holder, start)) {
        refreshIfDue(loading, key, holder);
        result.put(key, holder.value);
      } else {
        result.put(key, get(key));
      }
    }
    return result.build();
  }

  @Override
  public void refresh(K key) {
    loading().refresh(key);
  }

  @Override
  public void put(K key, V value) {
    if (Planted.ON && Planted.is("caches-11") && disk.stats().size() >= 1000) {
      throw new IllegalStateException("too many entries");
    }
    Holder<V> holder = disk.put(key, value);
    memory.put(key, holder);
    mayServe(key, holder, NO_CALL_UNDER_WAY);
  }

  @Override
  public void invalidate(Object object) {
    if (keyClass.isInstance(object)) {
      @SuppressWarnings("unchecked")
      K key = (K) object;
      disk.invalidate(key);
    }
    memory.invalidate(object); // after the disk: a reader in between may have brought the old value up
  }

  @Override
  public void invalidateAll() {
    disk.invalidateAll();
    memory.invalidateAll();
  }

  @Override
  public void cleanUp() {
    memory.cleanUp();
  }

  /** Returns the number of entries in memory, which Gerrit shows. */
  @Override
  public long size() {
    return memory.size();
  }

  @Override
  public CacheStats stats() {
    return memory.stats();
  }

  @Override
  public DiskStats diskStats() {
    return disk.stats();
  }

  DiskTier<K, V> disk() {
    return disk;
  }

  /** Returns what takes values of other servers into this cache. */
  WarmTarget<K, V> warmTarget() {
    return warmTarget;
  }

  /** Returns what offers the values of this cache to other servers. */
  WarmSource<K, V> warmSource() {
    return warmSource;
  }

  private LoadingCache<K, Holder<V>> loading() {
    if (memory instanceof LoadingCache<K, Holder<V>> loading) {
      return loading;
    }
    throw new UnsupportedOperationException("cache " + disk.name() + " has no loader");
  }

  /**
   * Returns whether a holder that was found in memory answers a call that began at {@code start}. Unless its value has
   * expired, it does so if no change outdates the value, or if each change that does so came after the call began. A
   * holder whose value is outdated or expired is removed from memory.
   */
  private boolean mayServe(K key, Holder<V> holder, long start) {
    DiskTier.Ages ages = disk.ages();
    boolean young = ages.expireAfter() == null || !ages.isExpired(holder.createdMillis, TimeUtil.nowMs());
    // The time of the last flush is compared for each call, because Caffeine 2.9, which Gerrit uses, may leave an entry
    // in memory at a flush during which others put.
    boolean current = holder.tick() >= disk.lastChangeOfAll() && isUnchanged(key, holder);
    if (!young || !current) {
      memory.asMap().remove(key, holder);
    }
    return young && (current || holder.tick() >= start);
  }

  /**
   * Returns whether no change of its key outdates a holder. An invalidation removes a served holder from memory, so one
   * that is still found there is current. A memory tier that keeps nothing cannot take a holder from the calls that
   * wait for its load, so the last change of the key is compared for each of these calls.
   */
  private boolean isUnchanged(K key, Holder<V> holder) {
    if (!hasMemory) {
      return disk.lastChange(key) <= holder.tick();
    }
    return holder.isServed() || holder.settle(disk.lastChange(key));
  }

  private void refreshIfDue(LoadingCache<K, Holder<V>> loading, K key, Holder<V> holder) {
    DiskTier.Ages ages = disk.ages();
    if (ages.refreshAfter() != null && ages.isDueForRefresh(holder.createdMillis, TimeUtil.nowMs())) {
      loading.refresh(key);
    }
  }
}

package org.refdb.gerrit.cache;

import com.google.common.cache.CacheLoader;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.gerrit.server.util.time.TimeUtil;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.refdb.engine.Planted;
import org.refdb.gerrit.cache.shared.SharedTier;

/**
 * Loads values for the memory tier: from disk, or else from the tier that servers share, or else with the loader of the
 * cache, whose values are then stored on disk and offered to the other servers. A refresh of a value in memory asks
 * only the loader, and does not offer the new value to other servers.
 */
final class HolderLoader<K, V> extends CacheLoader<K, Holder<V>> {
  private final DiskTier<K, V> disk;
  private final CacheLoader<K, V> source;

  HolderLoader(DiskTier<K, V> disk, CacheLoader<K, V> source) {
    this.disk = disk;
    this.source = source;
  }

  @Override
  public Holder<V> load(K key) throws Exception {
    return load(disk, key, () -> source.load(key));
  }

  /**
   * Loads a value from disk or from other servers, or else with {@code loader}. Returns null if the loader does, which
   * the memory tier rejects.
   */
  static <K, V> Holder<V> load(DiskTier<K, V> disk, K key, Callable<? extends V> loader) throws Exception {
    long tick = disk.now();
    Holder<V> stored = disk.read(key);
    if (stored != null) {
      return stored;
    }
    SharedValues.Asked<K, V> asked = disk.askOrAwaitOthers(key);
    if (asked.found() != null) {
      return asked.found();
    }
    return keep(disk, key, disk.compute(asked.place(), loader), tick, asked.place());
  }

  @Override
  public Map<K, Holder<V>> loadAll(Iterable<? extends K> keys) throws Exception {
    long tick = disk.now();
    Map<K, Holder<V>> result = new HashMap<>();
    List<K> absent = new ArrayList<>();
    for (K key : keys) {
      Holder<V> stored = disk.read(key);
      if (stored == null) {
        absent.add(key);
      } else {
        result.put(key, stored);
      }
    }
    Map<K, SharedTier.Place> places = new HashMap<>();
    for (SharedValues.Asked<K, V> asked : disk.askOthers(absent)) {
      if (asked.found() != null) {
        result.put(asked.key(), asked.found());
      } else {
        places.put(asked.key(), asked.place());
      }
    }
    absent.removeIf(result::containsKey);
    if (absent.isEmpty()) {
      return result;
    }
    Map<K, V> loaded;
    try {
      loaded = source.loadAll(absent);
    } catch (UnsupportedLoadingOperationException e) {
      loaded = loadOneByOne(absent);
    }
    if (loaded == null) {
      return null; // the memory tier then throws what Guava throws
    }
    loaded.forEach((key, value) -> result.put(key, keep(disk, key, value, tick, places.get(key))));
    return result;
  }

  private Map<K, V> loadOneByOne(List<K> keys) throws Exception {
    Map<K, V> loaded = new HashMap<>();
    for (K key : keys) {
      loaded.put(key, source.load(key));
    }
    return loaded;
  }

  @Override
  public ListenableFuture<Holder<V>> reload(K key, Holder<V> old) throws Exception {
    long tick = disk.now();
    if (Planted.ON && Planted.is("caches-19")) {
      disk.invalidate(key);
    }
    ListenableFuture<V> reloaded = source.reload(key, old.value);
    // The old value stays on disk until the new one replaces it, so a failed reload loses nothing.
    return Futures.transform(reloaded, value -> keep(disk, key, value, tick, null), MoreExecutors.directExecutor());
  }

  private static <K, V> Holder<V> keep(DiskTier<K, V> disk, K key, V value, long tick, SharedTier.Place place) {
    if (value == null || key == null) {
      return null;
    }
    Holder<V> holder = new Holder<>(value, TimeUtil.nowMs(), tick);
    disk.keepLoaded(key, holder, place);
    return holder;
  }
}

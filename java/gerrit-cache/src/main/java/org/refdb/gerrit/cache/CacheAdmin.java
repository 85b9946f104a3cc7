package org.refdb.gerrit.cache;

import com.google.common.cache.Cache;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** The persistent caches for administrators, to whom the plugin offers them over SSH and REST. */
@Singleton
public final class CacheAdmin {
  private final RefdbCacheFactory factory;

  @Inject
  CacheAdmin(RefdbCacheFactory factory) {
    this.factory = factory;
  }

  /** Returns all caches, ordered by name. */
  public List<CacheTools> all() {
    Map<String, CacheTools> tools = new TreeMap<>();
    for (DiskTier<?, ?> tier : factory.tiers()) {
      tools.put(tier.name(), new CacheTools(tier)); // two generations of a plugin's cache share their files
    }
    return List.copyOf(tools.values());
  }

  /** Returns the cache of this name. */
  public Optional<CacheTools> named(String name) {
    return all().stream().filter(tools -> tools.name().equals(name)).findFirst();
  }

  /**
   * Returns the persistent cache behind a cache of Gerrit; empty if that has no files, or if its files are not those
   * of refdb.
   */
  public static Optional<CacheTools> of(Cache<?, ?> cache) {
    return cache instanceof DiskCache<?, ?> ours ? Optional.of(new CacheTools(ours.disk())) : Optional.empty();
  }
}

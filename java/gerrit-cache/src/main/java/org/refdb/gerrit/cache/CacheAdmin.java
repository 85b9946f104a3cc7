package org.refdb.gerrit.cache;

import com.google.common.cache.Cache;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** The persistent caches, as administrators see them. The plugin gives it to them over SSH and REST. */
@Singleton
public final class CacheAdmin {
  private final RefdbCacheFactory factory;

  @Inject
  CacheAdmin(RefdbCacheFactory factory) {
    this.factory = factory;
  }

  /** All, by name. */
  public List<CacheTools> all() {
    Map<String, CacheTools> tools = new TreeMap<>();
    for (DiskTier<?, ?> tier : factory.tiers()) {
      tools.put(tier.name(), new CacheTools(tier)); // two generations of a plugin's share their files
    }
    return List.copyOf(tools.values());
  }

  /** The one of a name. */
  public Optional<CacheTools> named(String name) {
    return all().stream().filter(tools -> tools.name().equals(name)).findFirst();
  }

  /** The one that is behind a cache of Gerrit's; empty if it has no files, or others' files. */
  public static Optional<CacheTools> of(Cache<?, ?> cache) {
    return cache instanceof DiskCache<?, ?> ours ? Optional.of(new CacheTools(ours.disk())) : Optional.empty();
  }
}

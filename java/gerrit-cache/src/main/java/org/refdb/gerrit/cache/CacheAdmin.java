package org.refdb.gerrit.cache;

import com.google.common.cache.Cache;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.refdb.gerrit.cache.shared.SharedCaches;
import org.refdb.gerrit.cache.shared.SharedStatus;

/** The persistent caches for administrators, to whom the plugin offers them over SSH and REST. */
@Singleton
public final class CacheAdmin {
  private final RefdbCacheFactory factory;
  private Warming warming;

  @Inject
  CacheAdmin(RefdbCacheFactory factory) {
    this.factory = factory;
  }

  /** Returns the caches that refdb serves, ordered by name. */
  public List<CacheTools> all() {
    Map<String, CacheTools> tools = new TreeMap<>();
    for (DiskTier<?, ?> tier : factory.tiers()) {
      tools.put(tier.name(), new CacheTools(tier)); // of two generations of a plugin's cache, the newer one
    }
    return List.copyOf(tools.values());
  }

  /** Returns the cache of this name; empty if there is none. */
  public Optional<CacheTools> named(String name) {
    return all().stream().filter(tools -> tools.name().equals(name)).findFirst();
  }

  /**
   * Returns the state of the cache that servers share; empty if nothing is shared. This asks the server of the shared
   * cache, for at most two seconds.
   */
  public Optional<SharedStatus> sharedStatus() {
    return Optional.ofNullable(factory.shared()).map(SharedCaches::status);
  }

  /**
   * Begins to copy what servers share into this server's caches, in the background: into their files, or into memory if
   * they have none. Returns the copy.
   *
   * @param peer the {@code gerrit.instanceId} of a server that is asked to share its own values before they are copied;
   *     null to copy only what is shared already
   * @param cache the name of a shared cache; null for all
   * @param rate the most entries a second, from 1 to {@value Warming#RATE_MAX}
   * @throws IOException if there is no shared cache, or it is not in use; if the rate is out of range, {@code peer} is
   *     this server, another copy goes on, or {@code cache} (with null: every cache) cannot take copies
   */
  public synchronized Warming warm(String peer, String cache, int rate) throws IOException {
    SharedCaches shared = shared();
    if (peer != null && shared.peers().isSelf(peer)) {
      throw new IOException(peer + " is this server");
    }
    if (rate < 1 || rate > Warming.RATE_MAX) {
      throw new IOException("the rate must be from 1 to " + Warming.RATE_MAX + " entries a second");
    }
    if (warming != null && warming.progress().state() == Warming.State.RUNNING) {
      throw new IOException("a copy is going on: " + warming.progress().text());
    }
    List<? extends WarmTarget<?, ?>> targets = factory.warmTargets();
    if (targets.stream().noneMatch(target -> cache == null || cache.equals(target.name()))) {
      throw new IOException(
          (cache == null ? "no cache can take copies" : "cache " + cache + " cannot take copies")
              + ": it must be shared, have room in memory or on disk, and not use Java's serialisation for its keys");
    }
    if (!shared.isInUse()) {
      throw new IOException("the shared cache is not in use, see error_log");
    }
    warming = new Warming(shared, targets, peer, cache, rate);
    warming.start();
    return warming;
  }

  /** Returns the last copy that {@link #warm} began; empty if there was none. */
  public synchronized Optional<Warming> warming() {
    return Optional.ofNullable(warming);
  }

  private SharedCaches shared() throws IOException {
    if (factory.shared() == null) {
      throw new IOException("there is no shared cache: cache.refdbShared is not set, or error_log says why");
    }
    return factory.shared();
  }

  /**
   * Voids the shared values on all servers of the site, and waits until the server of the shared cache knows. What a
   * Gerrit has stored locally stays; its own flush empties that.
   *
   * @param cache the name of a shared cache; null for all
   * @throws IOException if nothing is shared, {@code cache} is not shared, or the server of the shared cache does not
   *     know within five seconds
   */
  public void flushShared(String cache) throws IOException, InterruptedException {
    SharedCaches shared = shared();
    if (cache != null && named(cache).filter(CacheTools::isShared).isEmpty()) {
      throw new IOException(cache + " is not shared");
    }
    shared.flush(cache);
  }

  /**
   * Returns the persistent cache behind a cache of Gerrit; empty if refdb does not serve that cache. A cache that is
   * configured without files is served by refdb only if it is shared.
   */
  public static Optional<CacheTools> of(Cache<?, ?> cache) {
    return cache instanceof DiskCache<?, ?> ours ? Optional.of(new CacheTools(ours.disk())) : Optional.empty();
  }
}

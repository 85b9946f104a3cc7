package org.refdb.gerrit.cache;

import static java.util.concurrent.TimeUnit.SECONDS;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheBuilder;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import com.google.common.flogger.FluentLogger;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.extensions.registration.DynamicMap;
import com.google.gerrit.server.cache.MemoryCacheFactory;
import com.google.gerrit.server.cache.PersistentCacheBaseFactory;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.config.ConfigUtil;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.SitePaths;
import com.google.gerrit.server.plugins.Plugin;
import com.google.gerrit.server.plugins.ReloadPluginListener;
import com.google.inject.Inject;
import com.google.inject.Provider;
import com.google.inject.Singleton;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import org.eclipse.jgit.lib.Config;
import org.refdb.gerrit.cache.h2.Takeover;
import org.refdb.gerrit.cache.shared.OfferTime;
import org.refdb.gerrit.cache.shared.SharedCaches;
import org.refdb.gerrit.cache.shared.SharedTier;
import org.refdb.gerrit.cache.shared.ValueContext;
import org.refdb.gerrit.cache.store.CacheFolder;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.StoreOpener;

/** Creates the persistent caches of Gerrit and its plugins, at start and later. */
@Singleton
final class RefdbCacheFactory extends PersistentCacheBaseFactory implements LifecycleListener, ReloadPluginListener {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** The caches of secrets: sessions and tokens. A call that changes one of these waits for the disk. */
  private static final Set<String> DURABLE = Set.of("web_sessions", "oauth_tokens");

  private final Stores stores;
  private final DynamicMap<Cache<?, ?>> cacheMap;
  private final OpenTime openTime;
  private final List<DiskCache<?, ?>> caches = new CopyOnWriteArrayList<>();

  /** Plugins whose new generation has started and whose old one is about to end. */
  private final Set<String> reloaded = ConcurrentHashMap.newKeySet();

  private final ExecutorService warmer = warmer();
  private final ValueContext context;
  private final SharedCaches shared;
  private final Offerings offerings;

  /** When the files of a cache are opened. */
  enum OpenTime {
    /** When the cache is created, so that a server spends the time before it answers requests. */
    AT_ONCE,
    /**
     * When the cache is first used, because an offline program uses few caches and knows only later whether it may
     * write.
     */
    WHEN_USED
  }

  @Inject
  RefdbCacheFactory(
      MemoryCacheFactory memoryCacheFactory,
      @GerritServerConfig Config config,
      SitePaths site,
      Stores stores,
      DynamicMap<Cache<?, ?>> cacheMap,
      OpenTime openTime) {
    super(memoryCacheFactory, config, directory(config, site));
    this.stores = stores;
    this.cacheMap = cacheMap;
    this.openTime = openTime;
    this.context = new ValueContext(config, site.site_path);
    this.shared = openTime == OpenTime.AT_ONCE ? SharedCaches.of(config, site.site_path) : null;
    this.offerings = shared == null ? null : new Offerings(shared, this::warmSources);
  }

  /**
   * Returns an executor with a single thread, which runs beside the start of the server and ends when there is nothing
   * to do.
   */
  private static ExecutorService warmer() {
    return new ThreadPoolExecutor(
        0,
        1,
        10,
        SECONDS,
        new LinkedBlockingQueue<>(),
        task -> {
          Thread thread = new Thread(task, "refdb-cache-warm-up");
          thread.setDaemon(true);
          thread.setPriority(Thread.MIN_PRIORITY);
          return thread;
        },
        new ThreadPoolExecutor.DiscardPolicy());
  }

  private static Path directory(Config config, SitePaths site) {
    String name = config.getString("cache", null, "directory");
    if (name == null) {
      return null;
    }
    Path directory = site.resolve(name);
    try {
      Files.createDirectories(directory);
    } catch (IOException e) {
      logger.atSevere().log("Caches stay in memory only: cannot make the folder %s: %s", directory, e.getMessage());
      return null;
    }
    if (!Files.isWritable(directory)) {
      logger.atSevere().log("Caches stay in memory only: the folder %s cannot be written", directory);
      return null;
    }
    logger.atInfo().log("Enabling disk cache %s", directory.toAbsolutePath());
    return directory;
  }

  /** Builds a cache. One that has no files, but is shared, gets the same tiers as a cache with files. */
  @Override
  public <K, V> Cache<K, V> build(PersistentCacheDef<K, V> def) {
    return isInMemoryAndShared(def) ? buildImpl(def, 0) : super.build(def);
  }

  @Override
  public <K, V> LoadingCache<K, V> build(PersistentCacheDef<K, V> def, CacheLoader<K, V> loader) {
    return isInMemoryAndShared(def) ? buildImpl(def, loader, 0) : super.build(def, loader);
  }

  private boolean isInMemoryAndShared(PersistentCacheDef<?, ?> def) {
    boolean hasFiles = diskEnabled && config.getLong("cache", def.configKey(), "diskLimit", def.diskLimit()) > 0;
    return !hasFiles && shared != null && shared.allows(def);
  }

  @Override
  protected <K, V> Cache<K, V> buildImpl(PersistentCacheDef<K, V> def, long diskLimit) {
    DiskTier<K, V> disk = diskTier(def, diskLimit);
    if (disk == null) {
      return memCacheFactory.build(def);
    }
    return cache(def, memCacheFactory.build(new HolderDef<>(def)), disk);
  }

  @Override
  protected <K, V> LoadingCache<K, V> buildImpl(
      PersistentCacheDef<K, V> def, CacheLoader<K, V> loader, long diskLimit) {
    DiskTier<K, V> disk = diskTier(def, diskLimit);
    if (disk == null) {
      return memCacheFactory.build(def, loader);
    }
    return cache(def, memory(def, new HolderLoader<>(disk, loader)), disk);
  }

  private <K, V> DiskCache<K, V> cache(PersistentCacheDef<K, V> def, Cache<K, Holder<V>> memory, DiskTier<K, V> disk) {
    MemoryRoom<K, V> room = hasMemory(def) ? new MemoryRoom<>(memory, def.weigher(), memoryLimit(def)) : null;
    DiskCache<K, V> cache = new DiskCache<>(def, memory, disk, room);
    caches.add(cache);
    return cache;
  }

  /**
   * Creates the memory tier. For a cache without room in memory, this is a cache of Guava that keeps nothing, because
   * the one that Gerrit provides breaks guarantees of a cache: it loads one key several times concurrently, and does
   * not wrap exceptions as callers expect.
   */
  private <K, V> LoadingCache<K, Holder<V>> memory(PersistentCacheDef<K, V> def, HolderLoader<K, V> loader) {
    HolderDef<K, V> holderDef = new HolderDef<>(def);
    if (!hasMemory(def)) {
      return CacheBuilder.newBuilder().maximumSize(0).concurrencyLevel(64).recordStats().build(loader);
    }
    return memCacheFactory.build(holderDef, loader);
  }

  private boolean hasMemory(PersistentCacheDef<?, ?> def) {
    return memoryLimit(def) > 0;
  }

  private long memoryLimit(PersistentCacheDef<?, ?> def) {
    return config.getLong("cache", def.configKey(), "memoryLimit", def.maximumWeight());
  }

  /**
   * Creates the disk tier. Returns null if the cache must stay in memory because it cannot be encrypted as configured.
   */
  private <K, V> DiskTier<K, V> diskTier(PersistentCacheDef<K, V> def, long diskLimit) {
    Duration expireAfter = configured(def, "maxAge", def.expireAfterWrite());
    Duration refreshAfter = configured(def, "refreshAfterWrite", def.refreshAfterWrite());
    EncryptionKeys keys;
    try {
      String name = def.configKey();
      keys =
          EncryptionKeys.of(
              name,
              config.getString("cache", name, "encryptionKey"),
              List.of(config.getStringList("cache", name, "oldEncryptionKey")));
    } catch (IllegalArgumentException e) {
      logger.atSevere().log("Cache %s stays in memory only: %s", def.name(), e.getMessage());
      forgetH2Secrets(cacheDir, def.name());
      return null;
    }
    boolean textKeys = KeyCodec.isText(def);
    StoreOpener.Spec spec =
        new StoreOpener.Spec(cacheDir, def.name(), def.version(), diskLimit, expireAfter, keys, textKeys);
    CacheFolder folder =
        spec.hasFiles() ? CacheFolder.of(cacheDir.resolve(NativeOpener.FOLDER), def.name()) : null;
    OfferTime offerTime = new OfferTime(folder, def.version(), context.hash(def));
    StoreHandle handle = new StoreHandle(stores, spec, offerTime::opened);
    if (openTime == OpenTime.AT_ONCE) {
      handle.get();
    }
    DiskTier.Ages ages = new DiskTier.Ages(expireAfter, refreshAfter);
    SharedTier sharedTier = shared == null ? null : shared.tier(def, offerTime);
    SharedValues<K, V> others = sharedTier == null ? null : new SharedValues<>(def, sharedTier, ages);
    DiskTier<K, V> tier = new DiskTier<>(def, handle, ages, DURABLE.contains(def.name()), others);
    if (openTime == OpenTime.AT_ONCE) {
      warmer.execute(tier::warmUp);
    }
    return tier;
  }

  /** Waits for the reads that were begun beside the start, so that a test does not count them. */
  void awaitWarmUp() throws InterruptedException, ExecutionException {
    warmer.submit(() -> {}).get();
  }

  /** Sets aside the H2 file of a cache that refdb cannot open, if it contains secrets. */
  static void forgetH2Secrets(Path directory, String cache) {
    if (DURABLE.contains(cache)) {
      Takeover.forgetSecrets(directory, cache);
    }
  }

  private Duration configured(PersistentCacheDef<?, ?> def, String variable, Duration otherwise) {
    long seconds = ConfigUtil.getTimeUnit(config, "cache", def.configKey(), variable, 0, SECONDS);
    return seconds > 0 ? Duration.ofSeconds(seconds) : otherwise;
  }

  /** Returns what the caches share with those of other servers; null if nothing. */
  SharedCaches shared() {
    return shared;
  }

  /** Returns the disk tiers of all caches. */
  List<? extends DiskTier<?, ?>> tiers() {
    return caches.stream().map(DiskCache::disk).toList();
  }

  /** Returns the targets of all caches of this server into which values of other servers can be copied. */
  List<? extends WarmTarget<?, ?>> warmTargets() {
    return caches.stream().map(DiskCache::warmTarget).filter(WarmTarget::canBeWarmed).toList();
  }

  private List<? extends WarmSource<?, ?>> warmSources() {
    return caches.stream().map(DiskCache::warmSource).toList();
  }

  @Override
  public void start() {
    if (shared != null) {
      shared.serveWith(offerings);
    }
  }

  @Override
  public void stop() {
    warmer.shutdownNow();
    if (shared != null) {
      shared.close();
      offerings.stop();
    }
    stores.stop();
  }

  /** Called by Gerrit between the start of a plugin's new generation and the end of the old one. */
  @Override
  public void onReloadPlugin(Plugin old, Plugin young) {
    reloaded(young.getName());
  }

  void reloaded(String plugin) {
    reloaded.add(plugin);
  }

  /**
   * Releases the stores of a plugin that stops. If the plugin was just reloaded, its caches in the map of Gerrit are
   * those of the new generation, which are kept, and those that are not in the map belong to the old one. A cache whose
   * store is released too early reopens it.
   */
  @Override
  public void onStop(String plugin) {
    boolean isReloaded = reloaded.remove(plugin);
    Set<DiskTier<?, ?>> kept = isReloaded ? listed(plugin) : new HashSet<>();
    cacheMap.plugins().stream().filter(other -> !other.equals(plugin)).forEach(other -> kept.addAll(listed(other)));
    List<? extends DiskTier<?, ?>> ending =
        tiers().stream().filter(tier -> tier.name().startsWith(plugin + ".") && !kept.contains(tier)).toList();
    caches.removeIf(cache -> ending.contains(cache.disk()));
    ending.forEach(tier -> tier.stores().release());
  }

  private Set<DiskTier<?, ?>> listed(String plugin) {
    Set<DiskTier<?, ?>> found = new HashSet<>();
    for (Provider<Cache<?, ?>> provider : cacheMap.byPlugin(plugin).values()) {
      if (provider.get() instanceof DiskCache<?, ?> cache) {
        found.add(cache.disk());
      }
    }
    return found;
  }
}

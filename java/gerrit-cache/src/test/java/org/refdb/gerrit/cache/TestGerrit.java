package org.refdb.gerrit.cache;

import com.google.common.cache.Cache;
import com.google.common.cache.LoadingCache;
import com.google.gerrit.extensions.registration.DynamicMap;
import com.google.gerrit.extensions.registration.DynamicSet;
import com.google.gerrit.lifecycle.LifecycleManager;
import com.google.gerrit.metrics.DisabledMetricMaker;
import com.google.gerrit.metrics.MetricMaker;
import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.CacheRemovalListener;
import com.google.gerrit.server.cache.PersistentCacheFactory;
import com.google.gerrit.server.cache.mem.DefaultMemoryCacheModule;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.SitePaths;
import com.google.gerrit.server.git.WorkQueue;
import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Key;
import com.google.inject.Module;
import com.google.inject.TypeLiteral;
import com.google.inject.name.Names;
import com.google.inject.util.Types;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;
import org.eclipse.jgit.lib.Config;

/** Gerrit's own cache machinery (memory tier, binding language, registry) around our module. */
public final class TestGerrit implements AutoCloseable {
  final Injector injector;
  private final LifecycleManager lifecycle = new LifecycleManager();

  /**
   * Starts the machinery.
   *
   * @param persistent the module that makes persistent caches
   * @param caches the caches of Gerrit's core
   */
  public TestGerrit(Path site, Config config, Module persistent, Module caches) {
    if (config.getString("cache", null, "threads") == null) {
      config.setInt("cache", null, "threads", 0); // removal listeners run in the caller's thread: nothing to wait for
    }
    injector = Guice.createInjector(new Environment(site, config), new DefaultMemoryCacheModule(), persistent, caches);
    lifecycle.add(injector);
    lifecycle.start();
  }

  private static final class Environment extends AbstractModule {
    private final Path site;
    private final Config config;

    Environment(Path site, Config config) {
      this.site = site;
      this.config = config;
    }

    @Override
    protected void configure() {
      try {
        bind(SitePaths.class).toInstance(new SitePaths(site));
      } catch (IOException e) {
        addError(e);
      }
      bind(Config.class).annotatedWith(GerritServerConfig.class).toInstance(config);
      bind(MetricMaker.class).to(DisabledMetricMaker.class);
      DynamicMap.mapOf(binder(), new TypeLiteral<Cache<?, ?>>() {});
      DynamicSet.setOf(binder(), CacheRemovalListener.class);
      DynamicMap.mapOf(binder(), WorkQueue.TaskListener.class);
    }
  }

  /** Returns refdb's module for a server, made as Gerrit makes it. */
  public static Module refdb(Path site, Config config) {
    try {
      return new RefdbCacheModule(new SitePaths(site), config);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  /** The server's bindings on stores in memory. */
  public static Module serverOn(HeapOpener opener) {
    return new CacheBindings(RefdbCacheFactory.OpenTime.AT_ONCE, opener);
  }

  /** An offline program's bindings on stores in memory. */
  public static Module programOn(HeapOpener opener) {
    return new CacheBindings(RefdbCacheFactory.OpenTime.WHEN_USED, opener);
  }

  /** A configuration whose caches lie in the site's folder {@code cache}. */
  public static Config config() {
    Config config = new Config();
    config.setString("cache", null, "directory", "cache");
    return config;
  }

  /** Declares one cache of strings. */
  public static CacheModule strings(String name) {
    return new CacheModule() {
      @Override
      protected void configure() {
        persist(name, String.class, String.class).valueSerializer(TextSerializer.INSTANCE).version(1);
      }
    };
  }

  @SuppressWarnings("unchecked")
  public <K, V> Cache<K, V> cache(String name, Class<K> key, Class<V> value) {
    return (Cache<K, V>)
        injector.getInstance(Key.get(Types.newParameterizedType(Cache.class, key, value), Names.named(name)));
  }

  public Cache<String, String> strings() {
    return cache("strings", String.class, String.class);
  }

  @SuppressWarnings("unchecked")
  LoadingCache<String, String> loading(String name) {
    return (LoadingCache<String, String>)
        injector.getInstance(
            Key.get(Types.newParameterizedType(LoadingCache.class, String.class, String.class), Names.named(name)));
  }

  public PersistentCacheFactory factory() {
    return injector.getInstance(PersistentCacheFactory.class);
  }

  /** Waits until the reads that run in the background of the start are done. */
  void awaitWarmUp() throws Exception {
    ((RefdbCacheFactory) factory()).awaitWarmUp();
  }

  public AtomicBoolean readOnly() {
    return injector.getInstance(Key.get(AtomicBoolean.class, Names.named(RefdbCacheModule.READ_ONLY)));
  }

  @Override
  public void close() {
    lifecycle.stop();
  }
}

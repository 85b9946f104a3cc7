package org.refdb.gerrit.cache;

import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.h2.CacheOptions;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Inject;
import java.util.EnumSet;
import org.eclipse.jgit.lib.Config;

/**
 * Installs the persistent caches in offline programs such as reindex:
 * {@code gerrit.installBatchModule = org.refdb.gerrit.cache.RefdbBatchCacheModule}. These programs share the files of
 * the server, so the server starts warm after an offline reindex, and a reindex uses the entries of the server.
 */
@ModuleImpl(name = CacheModule.PERSISTENT_MODULE)
public final class RefdbBatchCacheModule extends LifecycleModule {
  private final SitePaths site;
  private final Config config;

  @Inject
  RefdbBatchCacheModule(SitePaths site, @GerritServerConfig Config config) {
    this.site = site;
    this.config = config;
  }

  @Override
  protected void configure() {
    H2CacheModule h2 = new H2CacheModule(EnumSet.of(CacheOptions.BUILD_BLOOM_FILTER));
    install(Engines.bindings(site, config, RefdbCacheFactory.OpenTime.WHEN_USED, h2));
  }
}

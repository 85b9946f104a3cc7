package org.refdb.gerrit.cache;

import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Inject;
import org.eclipse.jgit.lib.Config;

/**
 * Replaces the H2 caches of a Gerrit server: {@code gerrit.installModule = org.refdb.gerrit.cache.RefdbCacheModule}.
 * If the engine cannot be loaded, the caches of Gerrit are kept.
 */
@ModuleImpl(name = CacheModule.PERSISTENT_MODULE)
public final class RefdbCacheModule extends LifecycleModule {
  /** The name of the switch with which offline programs prevent all writes. The modules of Gerrit bind it too. */
  static final String READ_ONLY = "DiskCacheReadOnly";

  private final SitePaths site;
  private final Config config;

  @Inject
  RefdbCacheModule(SitePaths site, @GerritServerConfig Config config) {
    this.site = site;
    this.config = config;
  }

  @Override
  protected void configure() {
    install(Engines.bindings(site, config, RefdbCacheFactory.OpenTime.AT_ONCE, new H2CacheModule()));
  }
}

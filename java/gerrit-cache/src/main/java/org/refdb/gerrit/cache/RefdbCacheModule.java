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
 * The server's persistent caches: {@code gerrit.installModule = org.refdb.gerrit.cache.RefdbCacheModule} puts them in
 * the place of Gerrit's H2 caches. Where the engine cannot be loaded, Gerrit's own stay.
 */
@ModuleImpl(name = CacheModule.PERSISTENT_MODULE)
public final class RefdbCacheModule extends LifecycleModule {
  /** The name of the switch that offline programs set to have nothing written. Gerrit's own modules bind it too. */
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

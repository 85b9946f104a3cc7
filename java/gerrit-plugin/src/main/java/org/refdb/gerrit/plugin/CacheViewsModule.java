package org.refdb.gerrit.plugin;

import static com.google.gerrit.server.config.CacheResource.CACHE_KIND;
import static com.google.gerrit.server.config.ConfigResource.CONFIG_KIND;

import com.google.gerrit.extensions.restapi.RestApiModule;

/** The REST endpoints for the persistent caches. */
final class CacheViewsModule extends RestApiModule {
  @Override
  protected void configure() {
    get(CONFIG_KIND, "caches").to(CacheViews.AllStats.class);
    get(CACHE_KIND, "stat").to(CacheViews.Stat.class);
    get(CACHE_KIND, "top").to(CacheViews.Top.class);
    get(CACHE_KIND, "export").to(CacheViews.Export.class);
    post(CACHE_KIND, "verify").to(CacheViews.Verify.class);
    post(CACHE_KIND, "compact").to(CacheViews.Compact.class);
    post(CACHE_KIND, "import").to(CacheViews.Import.class);
  }
}

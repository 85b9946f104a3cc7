package org.refdb.gerrit.plugin.cache;

import static com.google.gerrit.server.config.CacheResource.CACHE_KIND;
import static com.google.gerrit.server.config.ConfigResource.CONFIG_KIND;

import com.google.gerrit.extensions.restapi.RestApiModule;

/** Binds the REST endpoints for the persistent caches. */
public final class CacheEndpointsModule extends RestApiModule {
  @Override
  protected void configure() {
    get(CONFIG_KIND, "caches").to(ShowCacheStat.AllEndpoint.class);
    get(CONFIG_KIND, "shared-cache").to(ShowCacheStat.SharedEndpoint.class);
    get(CONFIG_KIND, "warm-caches").to(WarmCaches.ShowEndpoint.class);
    post(CONFIG_KIND, "warm-caches").to(WarmCaches.Endpoint.class);
    get(CACHE_KIND, "stat").to(ShowCacheStat.Endpoint.class);
    get(CACHE_KIND, "top").to(TopEntries.Endpoint.class);
    get(CACHE_KIND, "export").to(ExportCache.Endpoint.class);
    post(CACHE_KIND, "verify").to(VerifyCache.Endpoint.class);
    post(CACHE_KIND, "compact").to(CompactCache.Endpoint.class);
    post(CACHE_KIND, "flush-shared").to(FlushShared.Endpoint.class);
    post(CACHE_KIND, "import").to(ImportCache.Endpoint.class);
  }
}

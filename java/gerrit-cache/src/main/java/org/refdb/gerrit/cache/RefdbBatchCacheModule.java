package org.refdb.gerrit.cache;

import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.h2.CacheOptions;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import java.util.EnumSet;

/**
 * The persistent caches of offline programs such as reindex: {@code gerrit.installBatchModule =
 * org.refdb.gerrit.cache.RefdbBatchCacheModule}. They share the server's files, so that the server starts warm after
 * an offline reindex, and a reindex uses what the server has stored.
 */
@ModuleImpl(name = CacheModule.PERSISTENT_MODULE)
public final class RefdbBatchCacheModule extends LifecycleModule {
  @Override
  protected void configure() {
    install(
        RefdbCacheModule.bindingsOr(
            RefdbCacheFactory.OpenTime.WHEN_USED, new H2CacheModule(EnumSet.of(CacheOptions.BUILD_BLOOM_FILTER))));
  }
}

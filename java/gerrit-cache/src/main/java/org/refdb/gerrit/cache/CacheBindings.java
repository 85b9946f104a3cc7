package org.refdb.gerrit.cache;

import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.cache.PersistentCacheFactory;
import com.google.gerrit.server.plugins.ReloadPluginListener;
import com.google.inject.name.Names;
import java.util.concurrent.atomic.AtomicBoolean;
import org.h2.Driver;
import org.refdb.gerrit.cache.h2.Takeover;
import org.refdb.gerrit.cache.store.StoreOpener;

/** The bindings of refdb's caches in a server or in an offline program. */
final class CacheBindings extends LifecycleModule {
  private final RefdbCacheFactory.OpenTime openTime;
  private final StoreOpener opener;

  CacheBindings(RefdbCacheFactory.OpenTime openTime, StoreOpener opener) {
    this.openTime = openTime;
    this.opener = opener;
  }

  @Override
  protected void configure() {
    bind(AtomicBoolean.class).annotatedWith(Names.named(RefdbCacheModule.READ_ONLY)).toInstance(new AtomicBoolean());
    bind(RefdbCacheFactory.OpenTime.class).toInstance(openTime);
    bind(StoreOpener.class).toInstance(opener);
    bind(Takeover.class)
        .toInstance(
            openTime == RefdbCacheFactory.OpenTime.AT_ONCE
                ? Takeover.inBackground(new Driver())
                : Takeover.beforeUse(new Driver()));
    bind(PersistentCacheFactory.class).to(RefdbCacheFactory.class);
    listener().to(RefdbCacheFactory.class);
    if (openTime == RefdbCacheFactory.OpenTime.AT_ONCE) {
      bind(ReloadPluginListener.class).annotatedWith(Names.named("refdb-caches")).to(RefdbCacheFactory.class);
      bind(TierMetrics.class).asEagerSingleton();
      bind(SharedMetrics.class).asEagerSingleton();
      bind(CacheAdmin.class);
    }
  }
}

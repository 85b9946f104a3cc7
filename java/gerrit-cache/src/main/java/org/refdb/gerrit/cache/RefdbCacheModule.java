package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import com.google.inject.Module;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.NativeLibrary;

/**
 * The server's persistent caches: {@code gerrit.installModule = org.refdb.gerrit.cache.RefdbCacheModule} puts them in
 * the place of Gerrit's H2 caches. Where the engine cannot be loaded, Gerrit's own stay.
 */
@ModuleImpl(name = CacheModule.PERSISTENT_MODULE)
public final class RefdbCacheModule extends LifecycleModule {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** The name of the switch that offline programs set to have nothing written. Gerrit's own modules bind it too. */
  static final String READ_ONLY = "DiskCacheReadOnly";

  @Override
  protected void configure() {
    install(bindingsOr(RefdbCacheFactory.OpenTime.AT_ONCE, new H2CacheModule()));
  }

  static Module bindingsOr(RefdbCacheFactory.OpenTime openTime, Module otherwise) {
    try {
      NativeLibrary.load();
      return new CacheBindings(openTime, new NativeOpener());
    } catch (EngineLoadException e) {
      logger.atSevere().log("The persistent caches are Gerrit's own H2 caches, not refdb's: %s", e.getMessage());
      return otherwise;
    }
  }
}

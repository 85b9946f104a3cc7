package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Module;
import java.io.IOException;
import org.eclipse.jgit.lib.Config;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.ServerNote;
import org.refdb.engine.SiteLibrary;
import org.refdb.gerrit.cache.store.NativeOpener;

/** Chooses the caches of refdb or, if the engine cannot be loaded, those of Gerrit. */
final class Engines {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private Engines() {}

  /** Returns the bindings of refdb, or {@code otherwise} after logging an error. */
  static Module bindings(SitePaths site, Config config, RefdbCacheFactory.OpenTime openTime, Module otherwise) {
    String folder = config.getString(SiteLibrary.SECTION, null, SiteLibrary.KEY);
    boolean isServer = openTime == RefdbCacheFactory.OpenTime.AT_ONCE;
    try {
      SiteLibrary.load(SiteLibrary.folder(site.site_path, folder));
      note(site, isServer, true, "");
      return new CacheBindings(openTime, new NativeOpener());
    } catch (EngineLoadException e) {
      logger.atSevere().log("The persistent caches are Gerrit's own H2 caches, not refdb's: %s", e.getMessage());
      note(site, isServer, false, e.getMessage());
      return otherwise;
    }
  }

  /** Writes the {@link ServerNote} of a server, which its health checks read. Offline programs write none. */
  private static void note(SitePaths site, boolean isServer, boolean inUse, String text) {
    if (isServer) {
      try {
        ServerNote.write(site.site_path, ServerNote.Half.CACHES, inUse, text);
      } catch (IOException e) {
        logger.atWarning().withCause(e).log("`status` of refdb's installer will not know this server");
      }
    }
  }
}

package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Module;
import java.nio.file.Path;
import org.eclipse.jgit.lib.Config;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.NativeLibrary;

/** Chooses between refdb's caches and, where the engine cannot be loaded, Gerrit's own. */
final class Engines {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final String DEFAULT_FOLDER = "data/refdb";

  private Engines() {}

  /** The bindings, or {@code otherwise} and one error in the log. */
  static Module bindings(SitePaths site, Config config, RefdbCacheFactory.OpenTime openTime, Module otherwise) {
    String named = config.getString("refdb", null, "nativeDirectory");
    Path folder = site.resolve(named == null ? DEFAULT_FOLDER : named);
    try {
      NativeLibrary.load(folder);
      return new CacheBindings(openTime, new NativeOpener());
    } catch (EngineLoadException e) {
      logger.atSevere().log("The persistent caches are Gerrit's own H2 caches, not refdb's: %s", e.getMessage());
      return otherwise;
    }
  }
}

package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.config.GerritRuntime;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Inject;
import com.google.inject.ProvisionException;
import com.google.inject.Singleton;
import java.nio.file.Path;
import java.util.Optional;
import org.eclipse.jgit.lib.Config;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.NativeLibrary;
import org.refdb.engine.SiteLibrary;

/** Loads the native library once for the process. */
@Singleton
final class EngineLoader {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /**
   * Whether this is a server or an offline program. One process may be both, one after the other, since {@code daemon
   * --init} runs {@code init} first. In a servlet container, Gerrit does not say that it is a server.
   */
  @Inject(optional = true)
  private GerritRuntime runtime = GerritRuntime.DAEMON;

  private final Path folder;
  private String refusal;
  private final Settings settings;
  private final SitePaths site;
  private final Config config;

  @Inject
  EngineLoader(SitePaths site, @GerritServerConfig Config config) {
    this.site = site;
    this.config = config;
    this.settings = Settings.of(config);
    this.folder = SiteLibrary.folder(site.site_path, settings.nativeDirectory());
  }

  Settings settings() {
    return settings;
  }

  /** Returns why the engine could not be loaded; null if it was loaded, or if {@link #load} was not called yet. */
  String refusal() {
    return refusal;
  }

  /**
   * Loads the engine. If that fails, logs one error and returns nothing, so that Gerrit works as it does without refdb.
   *
   * @throws ProvisionException if {@code refdb.global} has an unknown value; in native mode, also if loading fails or
   *     gerrit.config has settings that contradict native mode
   */
  Optional<RefEngine> load() {
    boolean isGlobal = GlobalMode.isAskedFor(config);
    if (isGlobal) {
      GlobalMode.checkAlone(config, settings);
    }
    try {
      SiteLibrary.load(folder);
      RefEngine engine = new NativeEngine(settings, GlobalMode.load(config, site, runtime == GerritRuntime.DAEMON));
      logger.atInfo().log("refdb %s serves this site's refs", NativeLibrary.version());
      return Optional.of(engine);
    } catch (EngineLoadException e) {
      refusal = e.getMessage();
      if (isGlobal) {
        // JGit would write refs without a decision by etcd.
        throw new ProvisionException(
            "refdb.global is etcd in gerrit.config, but refdb's native library cannot be used: " + e.getMessage(), e);
      }
      logger.atSevere().withCause(e).log(
          "refdb's native library cannot be used, JGit's own ref database serves all refs: %s", e.getMessage());
      return Optional.empty();
    }
  }
}

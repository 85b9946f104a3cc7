package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.server.config.SitePaths;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.nio.file.Path;
import org.refdb.engine.ServerNote;

/** Records at the start of the server whether refdb serves its refs, for health checks. */
@Singleton
final class StartNote implements LifecycleListener {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final Path site;
  private final RefdbRepositoryManager manager;
  private final GitRepositoryManager bound;

  @Inject
  StartNote(SitePaths site, RefdbRepositoryManager manager, GitRepositoryManager bound) {
    this.site = site.site_path;
    this.manager = manager;
    this.bound = bound;
  }

  @Override
  public void start() {
    String refusal = refusal();
    try {
      ServerNote.write(site, ServerNote.Half.REFS, refusal == null, refusal == null ? "" : refusal);
    } catch (IOException e) {
      logger.atWarning().withCause(e).log("`status` of refdb's installer will not know this server");
    }
  }

  /** Returns why refdb does not serve this server's refs, or null. */
  private String refusal() {
    // A module that wraps Gerrit's repositories binds a class of its own. If Gerrit's own manager is bound, nobody uses
    // refdb's, which is provided by name only.
    if (manager.isEngineLoaded() && bound instanceof LocalDiskRepositoryManager) {
      String why =
          "gerrit.config lends refdb by name (" + RefdbNamedDbModule.class.getName() + "), but no module wraps Gerrit's"
              + " repositories: install the one that does, or refdb without --named";
      logger.atSevere().log("refdb is not in use, JGit's own ref database serves all refs: %s", why);
      return why;
    }
    return manager.refusal();
  }

  @Override
  public void stop() {}
}

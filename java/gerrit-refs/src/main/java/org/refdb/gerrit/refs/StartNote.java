package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.nio.file.Path;
import org.refdb.engine.ServerNote;

/** Notes at the server's start whether refdb serves its refs, for health checks. */
@Singleton
final class StartNote implements LifecycleListener {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final Path site;
  private final RefdbRepositoryManager manager;

  @Inject
  StartNote(SitePaths site, RefdbRepositoryManager manager) {
    this.site = site.site_path;
    this.manager = manager;
  }

  @Override
  public void start() {
    String refusal = manager.refusal();
    try {
      ServerNote.write(site, ServerNote.Half.REFS, manager.isEngineLoaded(), refusal == null ? "" : refusal);
    } catch (IOException e) {
      logger.atWarning().withCause(e).log("`status` of refdb's installer will not know this server");
    }
  }

  @Override
  public void stop() {}
}

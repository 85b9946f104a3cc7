package org.refdb.gerrit.global.watch;

import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.util.Optional;
import java.util.function.Consumer;
import org.refdb.gerrit.global.disk.SiteProjects;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.refs.GlobalDecision;
import org.refdb.gerrit.refs.GlobalSettled;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Runs the watch while Gerrit runs, and tells refdb's views which projects have changed in etcd. */
@Singleton
public final class WatchService implements LifecycleListener {
  /** The administration of the lib module; null if JGit serves the refs. */
  @Inject(optional = true)
  private RefdbAdmin views;

  private final GlobalRefs refs;
  private final SiteProjects site;
  private volatile LaggingRefs behind;
  private volatile RefWatch watching;

  @Inject
  WatchService(GlobalRefs refs, SiteProjects site) {
    this.refs = refs;
    this.site = site;
  }

  @Override
  public void start() {
    behind = new LaggingRefs(refs, site, this::tell, LaggingRefs.MOST);
    watching = new RefWatch(refs.etcd(), refs.keys(), behind);
  }

  private void tell(String project) {
    if (views != null) {
      views.refresh(Project.nameKey(project));
    }
  }

  @Override
  public void stop() {
    if (watching != null) {
      watching.close();
      behind.close();
    }
  }

  public long lag() {
    return watching == null ? 0 : watching.lag();
  }

  public long silentMillis() {
    return watching == null ? 0 : watching.silentMillis();
  }

  public long restarts() {
    return watching == null ? 0 : watching.restarts();
  }

  /** The lib module's native mode, which has its own client of etcd. */
  public Optional<GlobalDecision> nativeMode() {
    return Optional.ofNullable(views).flatMap(RefdbAdmin::global);
  }

  /** Settles the undecided updates of native mode in a project. */
  public GlobalSettled settle(String project, boolean isDry, Consumer<String> said) throws IOException {
    return views == null ? GlobalSettled.NONE : views.settleGlobal(Project.nameKey(project), isDry, said);
  }

  /** How far this node's disk lags behind. */
  public LaggingRefs.Report behind() {
    return behind == null ? new LaggingRefs.Report(0, null, 0, false) : behind.report();
  }
}

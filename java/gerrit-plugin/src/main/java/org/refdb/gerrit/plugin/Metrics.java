package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.extensions.registration.RegistrationHandle;
import com.google.gerrit.metrics.Description;
import com.google.gerrit.metrics.MetricMaker;
import com.google.inject.Inject;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;
import org.refdb.engine.RefStats;
import org.refdb.gerrit.ProjectStat;
import org.refdb.gerrit.RefdbAdmin;

/** The metrics {@code plugins/refdb/...}: sums over all projects. */
final class Metrics implements LifecycleListener {
  private final MetricMaker maker;
  private final RefdbAdmin admin;
  private final List<RegistrationHandle> handles = new ArrayList<>();

  @Inject
  Metrics(MetricMaker maker, RefdbAdmin admin) {
    this.maker = maker;
    this.admin = admin;
  }

  @Override
  public void start() {
    add("projects", "Projects whose repository was opened", stat -> 1);
    add("refused_projects", "Projects that refdb could not serve and JGit does", stat -> stat.refusal() == null ? 0 : 1);
    add("plain_evicted", "Repository objects without refdb found in JGit's cache", ProjectStat::plainEvicted);
    addEngine("hits", "Look-ups answered from memory", RefStats::hits);
    addEngine("misses", "Look-ups that had to read", RefStats::misses);
    addEngine("loads", "Times that refs were found changed by others, or read for the first time", RefStats::loads);
    addEngine("load_nanos", "Nanoseconds spent on that", RefStats::loadNanos);
    addEngine("reopens", "Repositories opened again because they were replaced or converted", RefStats::reopens);
    addEngine("bytes", "Memory held off the Java heap, in bytes", RefStats::bytes);
    addEngine("commits", "Batches of ref updates committed", RefStats::commits);
    addEngine("commit_groups", "Groups that they were committed in", RefStats::groups);
    addEngine("rejections", "Ref updates refused", RefStats::rejections);
    addEngine("verifications", "Comparisons of memory with the disk", RefStats::verifications);
    addEngine("stale", "Refs that such a comparison found to be stale", RefStats::stale);
    add("refreshed", "Checks caused by other nodes' news", ProjectStat::refreshed);
    add("shadow/projects", "Projects in shadow mode", stat -> stat.shadow() ? 1 : 0);
    add("shadow/compared", "Questions asked of both JGit and refdb", ProjectStat::compared);
    add("shadow/different", "Those that refdb answered otherwise than JGit", ProjectStat::different);
  }

  private void addEngine(String name, String description, ToLongFunction<RefStats> figure) {
    add(name, description, stat -> stat.engine() == null ? 0 : figure.applyAsLong(stat.engine()));
  }

  private void add(String name, String description, ToLongFunction<ProjectStat> figure) {
    handles.add(
        maker.newCallbackMetric(
            name,
            Long.class,
            new Description(description).setGauge(),
            () -> admin.stats().stream().mapToLong(figure).sum()));
  }

  @Override
  public void stop() {
    handles.forEach(RegistrationHandle::remove);
  }
}

package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.extensions.registration.RegistrationHandle;
import com.google.gerrit.metrics.CallbackMetric1;
import com.google.gerrit.metrics.Field;
import com.google.gerrit.metrics.MetricMaker;
import com.google.inject.Inject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToLongFunction;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;

/**
 * Registers the metrics {@code plugins/refdb/NAME}, over all projects, and {@code plugins/refdb/project/NAME}, for the
 * projects with metrics of their own.
 */
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
    for (Figure figure : Figure.ALL) {
      handles.add(
          maker.newCallbackMetric(
              figure.name(), Long.class, figure.describe(""), () -> figure.of(admin.stats())));
    }
    for (Holding holding : Holding.ALL) {
      handles.add(
          maker.newCallbackMetric(
              holding.name(), Long.class, holding.describe(), () -> holding.of(admin.holdings())));
    }
    Map<CallbackMetric1<String, Long>, ToLongFunction<ProjectStat>> ofProjects = new LinkedHashMap<>();
    Field<String> project = Field.ofProjectName("project").description("the project").build();
    for (Figure figure : Figure.ALL) {
      if (figure.isOfProjects()) {
        ofProjects.put(
            maker.newCallbackMetric("project/" + figure.name(), Long.class, figure.describe(", by project"), project),
            figure.value());
      }
    }
    handles.addAll(ofProjects.keySet());
    handles.add(
        maker.newTrigger(
            Set.copyOf(ofProjects.keySet()),
            () -> {
              List<ProjectStat> stats = admin.notable();
              ofProjects.forEach(
                  (metric, value) -> {
                    stats.forEach(stat -> metric.set(stat.project(), value.applyAsLong(stat)));
                    metric.prune();
                  });
            }));
  }

  @Override
  public void stop() {
    handles.forEach(RegistrationHandle::remove);
    handles.clear();
  }
}

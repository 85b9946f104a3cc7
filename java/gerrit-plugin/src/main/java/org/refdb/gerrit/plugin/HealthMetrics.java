package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.extensions.registration.RegistrationHandle;
import com.google.gerrit.metrics.Description;
import com.google.gerrit.metrics.MetricMaker;
import com.google.inject.Inject;
import java.util.ArrayList;
import java.util.List;
import org.refdb.engine.ServerNote;

/**
 * Registers the metrics {@code plugins/refdb/in_use/refs} and {@code in_use/caches}, each if that half of refdb is
 * configured: 1, or 0 if the half is not in use.
 */
final class HealthMetrics implements LifecycleListener {
  private final MetricMaker maker;
  private final Health health;
  private final List<RegistrationHandle> handles = new ArrayList<>();

  @Inject
  HealthMetrics(MetricMaker maker, Health health) {
    this.maker = maker;
    this.health = health;
  }

  @Override
  public void start() {
    for (ServerNote.Half half : health.configured()) {
      Description description =
          new Description("Whether refdb's " + half.word() + ", which are configured, are in use").setGauge();
      handles.add(
          maker.newCallbackMetric(
              "in_use/" + half.word(),
              Long.class,
              description,
              () -> health.of(half).inUse() ? 1L : 0L));
    }
  }

  @Override
  public void stop() {
    handles.forEach(RegistrationHandle::remove);
    handles.clear();
  }
}

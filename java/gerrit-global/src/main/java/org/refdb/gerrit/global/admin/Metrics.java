package org.refdb.gerrit.global.admin;

import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.extensions.registration.RegistrationHandle;
import com.google.gerrit.metrics.CallbackMetric0;
import com.google.gerrit.metrics.Description;
import com.google.gerrit.metrics.MetricMaker;
import com.google.gerrit.metrics.Timer0;
import com.google.inject.Inject;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;
import org.refdb.gerrit.global.transaction.Counts;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.watch.WatchService;
import org.refdb.gerrit.refs.GlobalCounts;
import org.refdb.gerrit.refs.GlobalDecision;

/** The metrics {@code plugins/refdb-global/NAME}. */
public final class Metrics implements LifecycleListener {
  private final MetricMaker maker;
  private final GlobalRefs refs;
  private final WatchService watch;
  private final List<RegistrationHandle> handles = new ArrayList<>();

  @Inject
  Metrics(MetricMaker maker, GlobalRefs refs, WatchService watch) {
    this.maker = maker;
    this.refs = refs;
    this.watch = watch;
  }

  @Override
  public void start() {
    Counts counts = refs.counts();
    counter("updates", "Updates of refs that etcd has accepted", () -> counts.updates.sum() + inNativeMode().updates());
    counter(
        "refused",
        "Updates refused, in most cases because etcd has another value",
        () -> counts.refused.sum() + inNativeMode().refused());
    counter(
        "failed",
        "Updates that failed or are unknown, for example because etcd was unreachable or full, or a lock was lost",
        () -> counts.failed.sum() + inNativeMode().failed());
    counter(
        "unknown",
        "Updates and lock requests reported as unknown because no response came",
        () -> counts.unknown.sum() + inNativeMode().unknown());
    gauge(
        "unresolved",
        "Updates and lock requests whose outcome is still unknown, or that cannot be finished on this disk",
        () -> refs.slots().unresolvedCount() + inNativeMode().unresolved());
    counter("locks", "Locks of refs that were taken", counts.locks::sum);
    counter(
        "locks_refused",
        "Locks of refs that were not acquired because the time was up or etcd failed",
        counts.locksRefused::sum);
    gauge("locks_held", "Locks that this node holds or waits for", () -> refs.locks().count());
    gauge("watch_lag", "Revisions that etcd is ahead of the changes this node has received", watch::lag);
    gauge("watch_silent_millis", "Milliseconds since the last response of etcd's watch", watch::silentMillis);
    counter("watch_restarts", "Times that this node may have missed changes and looked for them", watch::restarts);
    gauge("behind_refs", "Refs whose value in etcd has not reached this disk yet", () -> watch.behind().refs());
    gauge("behind_millis", "Milliseconds that the longest lagging ref has lagged", () -> watch.behind().millis());
    Timer0 took =
        maker.newTimer(
            "update_latency",
            new Description("Time that updates took in etcd")
                .setCumulative()
                .setUnit(Description.Units.MILLISECONDS));
    took.suppressLogging();
    handles.add(took);
    counts.updateTook = nanos -> took.record(nanos, TimeUnit.NANOSECONDS);
    tellNative(counts.updateTook);
  }

  private GlobalCounts inNativeMode() {
    return watch.nativeMode().map(GlobalDecision::counts).orElse(GlobalCounts.NONE);
  }

  private void tellNative(LongConsumer took) {
    watch.nativeMode().ifPresent(one -> one.tellTimes(took));
  }

  private void counter(String name, String description, LongSupplier value) {
    metric(name, new Description(description).setCumulative(), value);
  }

  private void gauge(String name, String description, LongSupplier value) {
    metric(name, new Description(description).setGauge(), value);
  }

  /**
   * Registers a metric with a trigger, because Gerrit's other method takes a class of Guava that is relocated in this
   * plugin.
   */
  private void metric(String name, Description description, LongSupplier value) {
    CallbackMetric0<Long> metric = maker.newCallbackMetric(name, Long.class, description);
    handles.add(metric);
    handles.add(maker.newTrigger(metric, () -> metric.set(value.getAsLong())));
  }

  @Override
  public void stop() {
    // The lib module outlives this plugin and must not keep its classes reachable.
    tellNative(null);
    handles.forEach(RegistrationHandle::remove);
    handles.clear();
  }
}

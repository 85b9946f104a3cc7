package org.refdb.gerrit.cache;

import com.google.common.collect.ImmutableSet;
import com.google.gerrit.metrics.CallbackMetric;
import com.google.gerrit.metrics.CallbackMetric1;
import com.google.gerrit.metrics.Description;
import com.google.gerrit.metrics.Field;
import com.google.gerrit.metrics.MetricMaker;
import com.google.gerrit.server.logging.Metadata;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/**
 * Metrics of the disk tier that the {@code caches/} metrics of Gerrit do not include: latencies, bytes, evictions and
 * refused puts.
 */
@Singleton
final class TierMetrics {
  private static final Field<String> CACHE =
      Field.ofString("cache_name", Metadata.Builder::cacheName).description("The name of the cache.").build();

  @Inject
  TierMetrics(MetricMaker maker, RefdbCacheFactory factory) {
    Map<CallbackMetric1<String, Double>, ToDoubleFunction<DiskTier<?, ?>>> gauges = new LinkedHashMap<>();
    for (String share : new String[] {"50", "99", "99.9"}) {
      double quantile = Double.parseDouble(share) / 100;
      String name = share.replace(".", "");
      gauges.put(
          gauge(maker, "read_latency_p" + name, "Disk tier: reads, " + share + "th percentile", "microseconds"),
          tier -> tier.readLatency.quantileMicros(quantile));
      gauges.put(
          gauge(maker, "write_latency_p" + name, "Disk tier: writes, " + share + "th percentile", "microseconds"),
          tier -> tier.writeLatency.quantileMicros(quantile));
    }
    gauges.put(gauge(maker, "live_bytes", "Disk tier: bytes of its entries", "bytes"), tier -> tier.storeStats().liveBytes());
    gauges.put(gauge(maker, "disk_bytes", "Disk tier: bytes of its files", "bytes"), tier -> tier.storeStats().diskBytes());
    gauges.put(
        gauge(maker, "limit_bytes", "Disk tier: bytes its files may take", "bytes"),
        tier -> tier.stores().spec().limitBytes());
    gauges.put(
        counter(maker, "evictions", "Disk tier: entries dropped for the limit, their age or damage", "entries"),
        tier -> tier.storeStats().evictions());
    gauges.put(counter(maker, "refused_puts", "Disk tier: attempts to store a value that found no room", "entries"),
        tier -> tier.storeStats().refusedPuts());
    ImmutableSet<CallbackMetric<?>> all = ImmutableSet.copyOf(gauges.keySet());
    maker.newTrigger(all, () -> {
      for (DiskTier<?, ?> tier : factory.tiers()) {
        gauges.forEach((gauge, number) -> gauge.set(tier.name(), number.applyAsDouble(tier)));
      }
      all.forEach(CallbackMetric::prune);
    });
  }

  private static CallbackMetric1<String, Double> gauge(MetricMaker maker, String name, String what, String unit) {
    return metric(maker, name, new Description(what).setGauge().setUnit(unit));
  }

  /** Creates a metric that only grows while the store is open. */
  private static CallbackMetric1<String, Double> counter(MetricMaker maker, String name, String what, String unit) {
    return metric(maker, name, new Description(what).setCumulative().setUnit(unit));
  }

  private static CallbackMetric1<String, Double> metric(MetricMaker maker, String name, Description description) {
    return maker.newCallbackMetric("refdb/caches/" + name, Double.class, description, CACHE);
  }
}

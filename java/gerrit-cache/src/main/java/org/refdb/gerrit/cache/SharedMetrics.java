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
import org.refdb.gerrit.cache.shared.Counts;
import org.refdb.gerrit.cache.shared.SharedCaches;

/** Metrics of the cache that several servers share. A server without such a cache has none of these metrics. */
@Singleton
final class SharedMetrics {
  private static final String PREFIX = "refdb/shared_cache/";
  private static final Field<String> CACHE =
      Field.ofString("cache_name", Metadata.Builder::cacheName).description("The name of the cache.").build();

  @Inject
  SharedMetrics(MetricMaker maker, RefdbCacheFactory factory) {
    SharedCaches shared = factory.shared();
    if (shared == null) {
      return;
    }
    number(maker, "in_use", "1 while requests ask the shared cache, else 0", () -> shared.isInUse() ? 1 : 0);
    number(maker, "waiting_entries", "Values that wait for the shared cache", () -> shared.waiting().entries());
    number(maker, "waiting_bytes", "Bytes of the values that wait", () -> shared.waiting().bytes());
    Map<CallbackMetric1<String, Double>, ToDoubleFunction<SharedValues<?, ?>>> perCache = new LinkedHashMap<>();
    for (Counts.Event event : Counts.Event.values()) {
      Description what = new Description("Shared cache: " + event.label().replace('_', ' ')).setCumulative();
      perCache.put(metric(maker, event.label(), what), values -> values.tier().counts().of(event));
    }
    for (String share : new String[] {"50", "99"}) {
      Description what =
          new Description("Shared cache: look-ups, " + share + "th percentile").setGauge().setUnit("microseconds");
      double quantile = Double.parseDouble(share) / 100;
      perCache.put(metric(maker, "latency_p" + share, what), values -> values.latency.quantileMicros(quantile));
    }
    ImmutableSet<CallbackMetric<?>> all = ImmutableSet.copyOf(perCache.keySet());
    maker.newTrigger(all, () -> {
      for (DiskTier<?, ?> tier : factory.tiers()) {
        if (tier.shared() != null) {
          perCache.forEach((metric, number) -> metric.set(tier.name(), number.applyAsDouble(tier.shared())));
        }
      }
      all.forEach(CallbackMetric::prune);
    });
  }

  private interface Number {
    double get();
  }

  private static void number(MetricMaker maker, String name, String what, Number number) {
    maker.newCallbackMetric(PREFIX + name, Double.class, new Description(what).setGauge(), number::get);
  }

  private static CallbackMetric1<String, Double> metric(MetricMaker maker, String name, Description description) {
    return maker.newCallbackMetric(PREFIX + name, Double.class, description, CACHE);
  }
}

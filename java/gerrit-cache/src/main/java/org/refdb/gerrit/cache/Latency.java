package org.refdb.gerrit.cache;

import java.util.concurrent.atomic.LongAdder;

/**
 * A histogram of the durations of calls. The upper end of a bucket is at most a quarter above its lower end, so a
 * quantile is at most 25 % too high. Recording takes a few nanoseconds and no lock, while a timer of the metrics
 * library costs more than a read of the store.
 */
final class Latency {
  private static final int STEPS_PER_DOUBLING = 4;
  private static final int BUCKETS = 40 * STEPS_PER_DOUBLING; // up to 2^40 ns, 18 minutes

  private final LongAdder[] counts = new LongAdder[BUCKETS];

  Latency() {
    for (int i = 0; i < BUCKETS; i++) {
      counts[i] = new LongAdder();
    }
  }

  void record(long nanos) {
    counts[bucket(nanos)].increment();
  }

  long count() {
    long sum = 0;
    for (LongAdder count : counts) {
      sum += count.sum();
    }
    return sum;
  }

  /**
   * Returns the latency, in microseconds, that the given share of calls (0 to 1) did not exceed; 0 before the first
   * call.
   */
  double quantileMicros(double share) {
    long total = count();
    if (total == 0) {
      return 0;
    }
    long wanted = Math.max(1, (long) Math.ceil(total * share));
    long seen = 0;
    int bucket = 0;
    for (; bucket < BUCKETS - 1; bucket++) {
      seen += counts[bucket].sum();
      if (seen >= wanted) {
        break;
      }
    }
    return upperNanos(bucket) / 1e3;
  }

  private static int bucket(long nanos) {
    if (nanos < STEPS_PER_DOUBLING) {
      return (int) Math.max(nanos, 0);
    }
    int log = 63 - Long.numberOfLeadingZeros(nanos);
    int step = (int) (nanos >>> (log - 2)) & (STEPS_PER_DOUBLING - 1);
    return Math.min(log * STEPS_PER_DOUBLING + step, BUCKETS - 1);
  }

  private static double upperNanos(int bucket) {
    int log = bucket / STEPS_PER_DOUBLING;
    int step = bucket % STEPS_PER_DOUBLING;
    return bucket < STEPS_PER_DOUBLING ? bucket : Math.scalb(1.0 + (step + 1.0) / STEPS_PER_DOUBLING, log);
  }
}

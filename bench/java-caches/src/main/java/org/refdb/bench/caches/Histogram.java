package org.refdb.bench.caches;

/** Counts of times in 16 buckets for each power of two nanoseconds; times below 16 ns count as 16 ns. */
final class Histogram {
  private static final int STEPS = 16;
  private final long[] counts = new long[44 * STEPS];
  private long count;
  private long max;

  void add(long nanos) {
    counts[bucket(nanos)]++;
    count++;
    max = Math.max(max, nanos);
  }

  void merge(Histogram other) {
    for (int i = 0; i < counts.length; i++) {
      counts[i] += other.counts[i];
    }
    count += other.count;
    max = Math.max(max, other.max);
  }

  long count() {
    return count;
  }

  double maxMillis() {
    return max / 1e6;
  }

  double quantileMicros(double share) {
    long wanted = (long) Math.ceil(count * share);
    long seen = 0;
    for (int i = 0; i < counts.length; i++) {
      seen += counts[i];
      if (seen >= wanted && seen > 0) {
        return (Math.scalb(1.0 + (i % STEPS + 0.5) / STEPS, i / STEPS)) / 1e3;
      }
    }
    return 0;
  }

  private static int bucket(long nanos) {
    if (nanos < STEPS) {
      return 4 * STEPS;
    }
    int log = 63 - Long.numberOfLeadingZeros(nanos);
    return Math.min(log, 43) * STEPS + ((int) (nanos >>> (log - 4)) & (STEPS - 1));
  }
}

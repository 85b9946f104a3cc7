package org.refdb.gerrit.cache.shared;

/**
 * How long a request waits for an answer: four times as long as the server takes for 99 of 100 answers, but at least 1
 * ms, and no longer than the deadline of the settings.
 */
final class Patience {
  private static final double TIMES = 4;
  private static final double SHARE = 0.99;

  /**
   * A pause of the collector or the scheduler takes this long without a fault of the server; and a socket cannot wait
   * for less.
   */
  private static final long NANOS_MIN = 1_000_000;

  /**
   * The estimate rises by STEP * SHARE of itself at an answer above it, and falls by STEP * (1 - SHARE) at any other.
   */
  private static final double STEP = 0.1;

  private final long deadlineNanos;
  private volatile double estimateNanos;

  Patience(long deadlineNanos) {
    this.deadlineNanos = deadlineNanos;
    this.estimateNanos = deadlineNanos;
  }

  long nanos() {
    return Math.min(deadlineNanos, Math.max(NANOS_MIN, (long) (estimateNanos * TIMES)));
  }

  /**
   * Notes how long an answer took. The estimate moves up 99 times as far as down, so that it rests where one answer of
   * 100 is above it. Two threads that note at once may lose one note, which does no harm.
   */
  void answered(long nanos) {
    double was = estimateNanos;
    double moved = nanos > was ? was * (1 + STEP * SHARE) : was * (1 - STEP * (1 - SHARE));
    estimateNanos = Math.min(moved, deadlineNanos);
  }

  /** Notes that an answer did not come in time: the next ones have the whole deadline. */
  void late() {
    estimateNanos = deadlineNanos;
  }
}

package org.refdb.gerrit.refs;

import java.time.Duration;

/**
 * Records that refdb could not open a project. Because a disk, a network or a limit may have failed for a time, refdb
 * tries again by itself, after pauses that grow.
 *
 * @param why the reason, for people
 * @param failures number of consecutive failures
 * @param retryNanos when to try again, in {@link System#nanoTime()}
 */
record Refusal(String why, int failures, long retryNanos) {
  private static final Duration PAUSE_MIN = Duration.ofMillis(100);
  private static final Duration PAUSE_MAX = Duration.ofSeconds(30);
  private static final int DOUBLINGS_MAX = 20;

  /**
   * Returns the refusal after one more failure.
   *
   * @param before the previous refusal, or null
   */
  static Refusal after(Refusal before, String why, long now) {
    int failures = before == null ? 1 : before.failures + 1;
    return new Refusal(why, failures, now + pause(failures).toNanos());
  }

  private static Duration pause(int failures) {
    Duration pause = PAUSE_MIN.multipliedBy(1L << Math.min(failures - 1, DOUBLINGS_MAX));
    return pause.compareTo(PAUSE_MAX) < 0 ? pause : PAUSE_MAX;
  }

  boolean isDue(long now) {
    return now - retryNanos >= 0;
  }

  /** Returns whether its reason is new, and worth a line in the log. */
  boolean isNews(Refusal before) {
    return before == null || !why.equals(before.why);
  }
}

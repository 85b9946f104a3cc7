package org.refdb.gerrit.refs;

import java.time.Duration;

/**
 * That refdb could not open a project. It tries again, after a pause that grows from time to time. A disk, a network or
 * a limit may have failed, and nobody should have to say that it is over.
 *
 * @param why in words
 * @param failures how often in a row
 * @param retryNanos when it tries again, on the clock of {@link System#nanoTime()}
 */
record Refusal(String why, int failures, long retryNanos) {
  private static final Duration PAUSE_MIN = Duration.ofMillis(100);
  private static final Duration PAUSE_MAX = Duration.ofSeconds(30);
  private static final int DOUBLINGS_MAX = 20;

  /**
   * One more failure.
   *
   * @param before the one before it, or null
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

  /** Whether it is the first of its kind, and worth a line in the log. */
  boolean isNews(Refusal before) {
    return before == null || !why.equals(before.why);
  }
}

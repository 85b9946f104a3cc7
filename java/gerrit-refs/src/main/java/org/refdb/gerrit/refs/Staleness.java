package org.refdb.gerrit.refs;

import java.time.Duration;

/**
 * What the verifier knows about a project. Times are those of {@link System#nanoTime()}.
 *
 * <p>For how long stale answers were given cannot be known, but it is bounded by the time since the last comparison that
 * succeeded, after which stale refs are read again, or since the project was last found unused. A project whose refs
 * were looked up, listed or changed since the end of the last such comparison is not found unused.
 */
final class Staleness {
  private long lookedAt;
  private long cleanAt;

  /** How often the project had been used when it was last verified. */
  private long uses;

  private long found;
  private long nanos;
  private Duration lastStaleAtMost = Duration.ZERO;
  private Duration longestStaleAtMost = Duration.ZERO;

  Staleness(long now) {
    lookedAt = now;
    cleanAt = now;
  }

  /** When the project was last verified, skipped or found unused, or else first used. */
  synchronized long lookedAt() {
    return lookedAt;
  }

  /**
   * Returns whether the project was used since it was last verified. If not, its turn is postponed as if it had been
   * verified.
   */
  synchronized boolean wasUsedAt(long usesNow, long now) {
    boolean wasUsed = uses != usesNow;
    if (!wasUsed) {
      lookedAt = now;
      cleanAt = now; // without a use no stale ref was answered
    }
    return wasUsed;
  }

  synchronized void looked(long begun, long now, int differences) {
    if (differences == 0) {
      cleanAt = begun; // later changes are for the next comparison
    } else {
      found += differences;
      lastStaleAtMost = Duration.ofNanos(now - cleanAt);
      if (lastStaleAtMost.compareTo(longestStaleAtMost) > 0) {
        longestStaleAtMost = lastStaleAtMost;
      }
      cleanAt = now; // the refs are read again
    }
    lookedAt = now;
    nanos += now - begun;
  }

  /** Records that the project could not be compared, so that others come first. */
  synchronized void skipped(long now) {
    lookedAt = now;
  }

  /** Sets the uses that a comparison has covered. */
  synchronized void usedUpTo(long usesNow) {
    uses = usesNow;
  }

  synchronized Duration lastStaleAtMost() {
    return lastStaleAtMost;
  }

  synchronized StaleStats figures(long now) {
    return new StaleStats(found, longestStaleAtMost.toMillis(), nanos, Duration.ofNanos(now - cleanAt).toMillis());
  }
}

package org.refdb.gerrit.refs;

import java.time.Duration;

/**
 * What the verifier knows of a project. Times are those of {@link System#nanoTime()}.
 *
 * <p>How long stale answers were given cannot be known, only a bound. It runs since the last comparison that found
 * nothing, or since nobody asked.
 */
final class Staleness {
  private long lookedAt;
  private long cleanAt;
  private long uses;
  private long found;
  private long nanos;
  private Duration lastStaleAtMost = Duration.ZERO;
  private Duration longestStaleAtMost = Duration.ZERO;

  Staleness(long now) {
    lookedAt = now;
    cleanAt = now;
  }

  /** When it was looked at last, or first heard of. */
  synchronized long lookedAt() {
    return lookedAt;
  }

  /** Whether it was used since it was looked at last. If not, its next turn comes as if it had been looked at. */
  synchronized boolean wasUsedAt(long usesNow, long now) {
    boolean wasUsed = uses != usesNow;
    uses = usesNow;
    if (!wasUsed) {
      lookedAt = now;
      cleanAt = now; // who does not answer gives no stale answers
    }
    return wasUsed;
  }

  synchronized void looked(long begun, long now, int differences) {
    if (differences == 0) {
      cleanAt = begun; // what changed later is for the next look
    } else {
      found += differences;
      lastStaleAtMost = Duration.ofNanos(now - cleanAt);
      if (lastStaleAtMost.compareTo(longestStaleAtMost) > 0) {
        longestStaleAtMost = lastStaleAtMost;
      }
      cleanAt = now; // it is read again
    }
    lookedAt = now;
    nanos += now - begun;
  }

  /** It could not be compared; others have their turn first. */
  synchronized void skipped(long now) {
    lookedAt = now;
  }

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

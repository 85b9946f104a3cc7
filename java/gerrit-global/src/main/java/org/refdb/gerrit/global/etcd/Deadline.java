package org.refdb.gerrit.global.etcd;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** When an operation gives up, on the monotonic clock, and how long it waits between two attempts. */
public final class Deadline {
  private static final long FIRST_PAUSE_MILLIS = 2;

  private final long end;
  private final long longestPauseMillis;
  private long pauseMillis = FIRST_PAUSE_MILLIS;

  private Deadline(long end, long longestPauseMillis) {
    this.end = end;
    this.longestPauseMillis = longestPauseMillis;
  }

  /** Deadline of an operation that may send several requests to etcd: {@code timeout} from now. */
  public static Deadline of(Settings settings) {
    return in(settings.timeout(), settings.requestTimeout());
  }

  /** Deadline of a single request that is retried later: {@code requestTimeout} from now. */
  public static Deadline ofOneRequest(Settings settings) {
    return in(settings.requestTimeout(), settings.requestTimeout());
  }

  public static Deadline in(Duration time, Duration longestPause) {
    return new Deadline(System.nanoTime() + time.toNanos(), longestPause.toMillis());
  }

  public long millisLeft() {
    return Math.max(0, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
  }

  boolean isOver() {
    return end - System.nanoTime() <= 0;
  }

  /**
   * Sleeps for twice as long as the last time, but at most for the longest pause, give or take a quarter, and never
   * longer than the time that is left. Returns whether time is left; false if interrupted.
   */
  public boolean pause() {
    long pause = pauseMillis * 3 / 4 + ThreadLocalRandom.current().nextLong(pauseMillis / 2 + 1);
    pauseMillis = Math.min(2 * pauseMillis, longestPauseMillis);
    try {
      Thread.sleep(Math.min(pause, millisLeft()));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
    return !isOver();
  }
}

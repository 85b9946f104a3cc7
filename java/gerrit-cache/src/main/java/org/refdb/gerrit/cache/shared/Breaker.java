package org.refdb.gerrit.cache.shared;

import com.google.common.flogger.FluentLogger;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Keeps requests away from a server that fails or is late: while the breaker is open, they do not ask it. Only a
 * background thread closes the breaker, once the server has answered three of its probes in a row in time. Except at
 * the start, the breaker stays open for at least 1 s. If it opens again sooner after it was closed than it had to stay
 * open before, it stays open for at least twice as long as then, up to 60 s: this keeps a server that comes and goes
 * from costing much, while one that is late now and then, because its machine or this one is busy, is left alone for a
 * second at a time.
 */
final class Breaker implements Lane.Failures {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /**
   * The sum of late answers above which the breaker opens: four in a row exceed it, and so does one of two in the
   * long run.
   */
  private static final double LATE_MAX = 3;
  private static final double FORGOTTEN = 0.85;
  private static final int GOOD_PROBES = 3;
  private static final long OPEN_NANOS_MIN = TimeUnit.SECONDS.toNanos(1);
  private static final long OPEN_NANOS_MAX = TimeUnit.SECONDS.toNanos(60);

  private final LongSupplier clock;
  private volatile boolean isOpen = true;
  private double late;
  private int goodProbes;
  private long openNanos = OPEN_NANOS_MIN;
  private long changedNanos;
  private long opened;

  /** Creates a breaker that is open, because nothing is known of the server; the first good probes close it. */
  Breaker() {
    this(System::nanoTime);
  }

  Breaker(LongSupplier clock) {
    this.clock = clock;
    changedNanos = clock.getAsLong() - OPEN_NANOS_MIN;
  }

  boolean isOpen() {
    return isOpen;
  }

  /** Returns how often it has opened since the start. */
  synchronized long opened() {
    return opened;
  }

  /** Notes an answer that came in time. */
  void inTime() {
    if (late > 0) { // seldom; whether this is seen at once does not matter
      forget();
    }
  }

  private synchronized void forget() {
    late = late < 0.1 ? 0 : late * FORGOTTEN;
  }

  /** Notes that a request or a probe was not answered in time. */
  synchronized void late() {
    late = late * FORGOTTEN + 1;
    if (late > LATE_MAX) {
      open("its answers are late");
    }
  }

  @Override
  public synchronized void failed(Throwable cause) {
    open(cause.getMessage());
  }

  private void open(String why) {
    goodProbes = 0;
    if (isOpen) {
      return;
    }
    long now = clock.getAsLong();
    openNanos = now - changedNanos > openNanos ? OPEN_NANOS_MIN : Math.min(openNanos * 2, OPEN_NANOS_MAX);
    changedNanos = now;
    opened++;
    isOpen = true;
    long seconds = TimeUnit.NANOSECONDS.toSeconds(openNanos);
    logger.atWarning().atMostEvery(10, TimeUnit.SECONDS).log(
        "The shared cache is left alone for at least %d s: %s", seconds, why);
  }

  /** Notes the result of a probe. */
  synchronized void probed(boolean isGood) {
    if (!isGood) {
      goodProbes = 0;
      late();
      return;
    }
    late = 0;
    goodProbes++;
    if (isOpen && goodProbes >= GOOD_PROBES && clock.getAsLong() - changedNanos >= openNanos) {
      isOpen = false;
      changedNanos = clock.getAsLong();
      logger.atInfo().atMostEvery(10, TimeUnit.SECONDS).log("The shared cache is in use");
    }
  }
}

package org.refdb.gerrit.cache.shared;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Limits how long a thread waits for answers of the shared cache within any 100 ms, so that a request that asks for one
 * value after the other is protected as well.
 */
final class Budget {
  private static final long STEP_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /**
   * The number of steps that are added up: the ten of 100 ms, and one more, because the current step is not over yet.
   */
  private static final int STEPS = 11;

  private final long waitNanosMax;
  private final LongSupplier clock;
  private final ThreadLocal<Spent> spent = ThreadLocal.withInitial(Spent::new);

  /** For each of the last steps, the nanoseconds of a thread's waits that ended in it. */
  private static final class Spent {
    final long[] nanos = new long[STEPS];
    long step;

    void moveTo(long now) {
      for (long gone = Math.min(now - step, STEPS); gone > 0; gone--) {
        nanos[Math.floorMod(now - gone + 1, STEPS)] = 0;
      }
      step = now;
    }

    long sum() {
      long sum = 0;
      for (long each : nanos) {
        sum += each;
      }
      return sum;
    }
  }

  Budget(long waitNanosMax, LongSupplier clock) {
    this.waitNanosMax = waitNanosMax;
    this.clock = clock;
  }

  /** Returns how many nanoseconds the current thread may wait now; 0 or less if none. */
  long left() {
    return waitNanosMax - current().sum();
  }

  /** Notes that a wait of the current thread has just ended. */
  void waited(long nanos) {
    Spent of = current();
    of.nanos[Math.floorMod(of.step, STEPS)] += nanos;
  }

  private Spent current() {
    Spent of = spent.get();
    of.moveTo(Math.floorDiv(clock.getAsLong(), STEP_NANOS));
    return of;
  }
}

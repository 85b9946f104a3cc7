package org.refdb.it;

import java.util.ArrayList;
import java.util.List;

/** Runs the same work in many threads at once. */
final class Parallel {
  private Parallel() {}

  /** One thread's work. */
  @FunctionalInterface
  interface Work {
    void run(int thread) throws Exception;
  }

  /**
   * Runs the work in {@code threads} threads and waits for all.
   *
   * @throws IllegalStateException if one failed; the cause is the first failure
   */
  static void run(int threads, Work work) throws InterruptedException {
    List<Throwable> failures = new ArrayList<>();
    List<Thread> running = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int number = i;
      running.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      work.run(number);
                    } catch (Exception | AssertionError e) {
                      synchronized (failures) {
                        failures.add(e);
                      }
                    }
                  }));
    }
    for (Thread thread : running) {
      thread.join();
    }
    if (!failures.isEmpty()) {
      throw new IllegalStateException("thread failed: " + failures.getFirst().getMessage(), failures.getFirst());
    }
  }
}

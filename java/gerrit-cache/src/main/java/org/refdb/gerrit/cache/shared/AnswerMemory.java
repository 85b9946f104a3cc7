package org.refdb.gerrit.cache.shared;

import java.util.concurrent.atomic.AtomicLong;

/** Bounds the bytes of answers that have come and not been taken yet. */
final class AnswerMemory {
  private static final long BYTES_MAX = 64 << 20;

  private final AtomicLong used = new AtomicLong();

  /** Takes room for so many bytes. Returns false if there is less; nothing is taken then. */
  boolean take(long bytes) {
    if (used.addAndGet(bytes) <= BYTES_MAX) {
      return true;
    }
    used.addAndGet(-bytes);
    return false;
  }

  void give(long bytes) {
    used.addAndGet(-bytes);
  }

  long used() {
    return used.get();
  }
}

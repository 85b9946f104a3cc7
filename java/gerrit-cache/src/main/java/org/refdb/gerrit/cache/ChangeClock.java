package org.refdb.gerrit.cache;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Orders writes to a store, so that a value that was loaded before its key was changed is never stored after the
 * change.
 *
 * <p>The keys share {@value #STRIPES} stripes, each with a lock that is held while the store makes one change and the
 * shared tier is told of it. Unless the store has to be opened first, or imports from H2, the holder of the lock waits
 * neither for room, nor for a disk or a server; a caller that needs the disk waits for it afterwards. If two keys share
 * a stripe, the worst consequence is that a value is loaded again.
 */
final class ChangeClock {
  private static final int STRIPES = 1 << 10;

  private final AtomicLong clock = new AtomicLong();
  private final AtomicLongArray lastChange = new AtomicLongArray(STRIPES);
  private final AtomicLong lastChangeOfAll = new AtomicLong();
  private final Object[] locks = new Object[STRIPES];

  ChangeClock() {
    for (int i = 0; i < STRIPES; i++) {
      locks[i] = new Object();
    }
  }

  /** Returns the current time. A value that is read or loaded after this call reflects all changes up to that time. */
  long now() {
    return clock.get();
  }

  /** Returns the time of the last change of the key, or of another key in its stripe. */
  long lastChange(Object key) {
    return lastChange.get(stripe(key));
  }

  /** Returns the lock that must be held for a change of the key and its {@link #advance}. */
  Object lockOf(Object key) {
    return locks[stripe(key)];
  }

  /**
   * Advances the clock for a change of the key, and returns the time of the change. The caller must hold the lock and
   * call this after the change, because a reader that still gets the old value from the store must have an earlier
   * time.
   */
  long advance(Object key) {
    assert Thread.holdsLock(lockOf(key));
    long tick = clock.incrementAndGet();
    lastChange.set(stripe(key), tick);
    return tick;
  }

  /**
   * Runs a change of all keys. Because no single lock excludes all writers, each stripe gets a new time before the
   * change, so that no older value is stored after it. The time of the change itself is set after it, as for a single
   * key.
   */
  void changeAll(Runnable change) {
    for (int stripe = 0; stripe < STRIPES; stripe++) {
      synchronized (locks[stripe]) {
        lastChange.set(stripe, clock.incrementAndGet());
      }
    }
    try {
      change.run();
    } finally {
      lastChangeOfAll.accumulateAndGet(clock.incrementAndGet(), Math::max);
    }
  }

  /** Returns the time of the last change of all keys, which {@link #lastChange} does not include. */
  long lastChangeOfAll() {
    return lastChangeOfAll.get();
  }

  private static int stripe(Object key) {
    int hash = key.hashCode() * 0x9E3779B9;
    return hash >>> (32 - Integer.numberOfTrailingZeros(STRIPES));
  }
}

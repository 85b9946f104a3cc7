package org.refdb.gerrit.cache;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Orders writes to a store: a value that was loaded before its key was changed is never stored after it.
 *
 * <p>Keys share {@value #STRIPES} stripes. A stripe's lock is held for one store call only. That call waits neither for
 * room nor for a disk, and nothing else is locked meanwhile. The caller waits for the disk afterwards. Two keys of one
 * stripe cost at most a value that is loaded again.
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

  /** The time now: a value read or loaded after this call knows all changes up to it. */
  long now() {
    return clock.get();
  }

  /** When the key (or one of its stripe) was changed last. */
  long lastChange(Object key) {
    return lastChange.get(stripe(key));
  }

  /** The lock under which a change of the key, and its {@link #advance}, are made. */
  Object lockOf(Object key) {
    return locks[stripe(key)];
  }

  /**
   * Gives a change of the key its tick. That comes after the change. A reader of the store may get the older value
   * until the change is made, and must count as earlier. For the holder of the lock.
   */
  long advance(Object key) {
    assert Thread.holdsLock(lockOf(key));
    long tick = clock.incrementAndGet();
    lastChange.set(stripe(key), tick);
    return tick;
  }

  /**
   * Runs a change of every key. The stripes get a tick before it, so that no value from before is stored after it. No
   * single lock prevents that. All keys together get theirs after it, as one key does.
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

  /** When every key was changed last, which {@link #lastChange} of a key does not say. */
  long lastChangeOfAll() {
    return lastChangeOfAll.get();
  }

  private static int stripe(Object key) {
    int hash = key.hashCode() * 0x9E3779B9;
    return hash >>> (32 - Integer.numberOfTrailingZeros(STRIPES));
  }
}

package org.refdb.gerrit.cache;

/**
 * What the memory tier keeps for a key: the value, its age, and how new it is beside invalidations.
 *
 * <p>A holder enters the memory tier as a claim. Its first reader there settles it. It may be served only if its key
 * was not written or invalidated after its tick. The change may have passed before the holder arrived in memory.
 *
 * @param <V> the cache's value
 */
final class Holder<V> {
  private static final int CLAIMED = 0;
  private static final int SERVED = 1;
  private static final int OUTDATED = 2;

  final V value;

  /** When the value was made, in milliseconds since 1970, in any process. */
  final long createdMillis;

  private long tick;

  private volatile int state = CLAIMED;

  Holder(V value, long createdMillis, long tick) {
    this(value, createdMillis);
    this.tick = tick;
  }

  /** Of a value that is being read from the store; {@link #readAt} completes it before anyone else sees it. */
  Holder(V value, long createdMillis) {
    this.value = value;
    this.createdMillis = createdMillis;
  }

  void readAt(long tick) {
    this.tick = tick;
  }

  /** The change clock as it stood before the value was read or loaded. */
  long tick() {
    return tick;
  }

  boolean isServed() {
    return state == SERVED;
  }

  /** Decides once: {@code lastChange} is the tick of the last change of the key. Returns whether it may be served. */
  boolean settle(long lastChange) {
    if (state == CLAIMED) {
      state = lastChange <= tick ? SERVED : OUTDATED;
    }
    return state == SERVED;
  }
}

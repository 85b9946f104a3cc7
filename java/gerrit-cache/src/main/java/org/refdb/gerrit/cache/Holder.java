package org.refdb.gerrit.cache;

/**
 * The object that the memory tier stores for a key: the value, when it was created, and the tick of the {@link
 * ChangeClock} before it was read or loaded, or at which it was put.
 *
 * <p>A holder enters the memory tier unchecked, because its key may have been changed before the holder arrived there.
 * Its first reader decides whether later calls may be served from it, which is so only if the key was not written or
 * invalidated after the tick of the holder.
 *
 * @param <V> the type of the values of the cache
 */
final class Holder<V> {
  private static final int CLAIMED = 0;
  private static final int SERVED = 1;
  private static final int OUTDATED = 2;

  final V value;

  /** When the value was created in any process, in milliseconds since 1970. */
  final long createdMillis;

  private long tick;

  private volatile int state = CLAIMED;

  Holder(V value, long createdMillis, long tick) {
    this(value, createdMillis);
    this.tick = tick;
  }

  /**
   * Creates a holder for a value that is being read from the store; {@link #readAt} completes it before any other
   * thread sees it.
   */
  Holder(V value, long createdMillis) {
    this.value = value;
    this.createdMillis = createdMillis;
  }

  void readAt(long tick) {
    this.tick = tick;
  }

  /** Returns the time of the {@link ChangeClock} before the value was read or loaded, or at which it was put. */
  long tick() {
    return tick;
  }

  boolean isServed() {
    return state == SERVED;
  }

  /**
   * Decides at the first call whether the value may be served, where {@code lastChange} is the time of the last change
   * of the key. Returns the decision.
   */
  boolean settle(long lastChange) {
    if (state == CLAIMED) {
      state = lastChange <= tick ? SERVED : OUTDATED;
    }
    return state == SERVED;
  }
}

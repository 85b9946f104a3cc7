package org.refdb.gerrit.cache;

import com.google.common.cache.Cache;
import com.google.common.cache.Weigher;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Puts values that nobody has asked for yet into the memory of a cache, up to a share of its limit, so that they
 * displace no value that is in use.
 *
 * <p>Because the memory does not tell how full it is, this weighs all of its values, fills half of the room that is
 * left, and then weighs them again, since requests add values meanwhile.
 */
final class MemoryRoom<K, V> {
  private static final double SHARE = 0.8;

  /**
   * If nothing was put here since the memory was weighed, it is weighed again only after this time, because that walks
   * over all of its values.
   */
  private static final long REST_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final Cache<K, Holder<V>> memory;
  private final Weigher<K, V> weigher;
  private final long limit;

  /** The weight that may be added before the memory is weighed again. */
  private long room;
  private boolean hasAdded = true;
  private long weighedNanos;

  /** What came of a value. */
  enum Outcome {
    /** The value is in memory now. */
    STORED,
    /** The memory had a value for the key already, which stays. */
    PRESENT,
    /** There is no room for the value. */
    REFUSED
  }

  /**
   * Creates the room of a cache.
   *
   * @param weigher the weight of a value; null if each weighs 1
   * @param limit the limit on the weight of all values in memory together
   */
  MemoryRoom(Cache<K, Holder<V>> memory, Weigher<K, V> weigher, long limit) {
    this.memory = memory;
    this.weigher = weigher;
    this.limit = limit;
  }

  /** Puts a value, if there is none for the key and there is room. */
  synchronized Outcome put(K key, Holder<V> holder) {
    if (memory.asMap().containsKey(key)) {
      return Outcome.PRESENT;
    }
    long weight = weight(key, holder);
    if (weight > room && (hasAdded || System.nanoTime() - weighedNanos > REST_NANOS)) {
      weigh();
    }
    if (weight > room) {
      return Outcome.REFUSED;
    }
    room -= weight;
    hasAdded = true;
    return memory.asMap().putIfAbsent(key, holder) == null ? Outcome.STORED : Outcome.PRESENT;
  }

  private void weigh() {
    long used = 0;
    for (Map.Entry<K, Holder<V>> entry : memory.asMap().entrySet()) {
      used += weight(entry.getKey(), entry.getValue());
    }
    room = ((long) (SHARE * limit) - used) / 2;
    hasAdded = false;
    weighedNanos = System.nanoTime();
  }

  private long weight(K key, Holder<V> holder) {
    return weigher == null ? 1 : weigher.weigh(key, holder.value);
  }
}

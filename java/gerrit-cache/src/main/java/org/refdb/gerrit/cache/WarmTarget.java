package org.refdb.gerrit.cache;

import java.io.IOException;
import java.util.List;
import org.refdb.gerrit.cache.store.NoStore;
import org.refdb.gerrit.cache.store.Store;

/**
 * Takes values that other servers have computed into one cache: into its files, or into its memory if it has none. What
 * the cache has is kept, and once it is nearly full nothing is taken, as that would evict what is in use.
 */
final class WarmTarget<K, V> {
  /** The share of its limit up to which a store is filled. */
  private static final double SHARE = 0.8;

  /** Bytes that an entry takes in a file beside its record. */
  private static final int ENTRY_BYTES_EXTRA = 16;

  private final DiskTier<K, V> disk;
  private final MemoryRoom<K, V> memory;

  /**
   * Creates the target of a cache.
   *
   * @param memory the room in its memory; null if it keeps nothing there
   */
  WarmTarget(DiskTier<K, V> disk, MemoryRoom<K, V> memory) {
    this.disk = disk;
    this.memory = memory;
  }

  String name() {
    return disk.name();
  }

  /** Returns whether values of other servers can be copied into this cache. */
  boolean canBeWarmed() {
    boolean hasPlace = disk.stores().spec().hasFiles() || memory != null;
    return hasPlace && disk.shared() != null && disk.shared().tier().canRead();
  }

  /**
   * What came of a copy from the servers' shared tier.
   *
   * @param stored values that are stored here now
   * @param present values that were here already
   */
  record Warmed(int stored, int present) {
    static final Warmed NOTHING = new Warmed(0, 0);
  }

  /**
   * Copies the entries of the shared tier that have these names. Returns what came of it.
   *
   * @throws IOException if the shared tier fails or does not answer, is not in use, or cannot be read by names
   */
  Warmed warm(List<byte[]> names) throws IOException {
    Store store = disk.stores().held(); // not opened again while Gerrit ends
    boolean isInFiles = store != NoStore.INSTANCE;
    if (store == null || !isInFiles && memory == null || isInFiles && !hasRoom(store, 0)) {
      return Warmed.NOTHING;
    }
    int stored = 0;
    int present = 0;
    for (SharedValues.Asked<K, V> answer : disk.shared().read(names, disk.now())) {
      switch (isInFiles ? store(store, answer) : memory.put(answer.key(), answer.found())) {
        case STORED -> stored++;
        case PRESENT -> present++;
        case REFUSED -> {}
      }
    }
    return new Warmed(stored, present);
  }

  private MemoryRoom.Outcome store(Store store, SharedValues.Asked<K, V> answer) {
    if (store.get(answer.keyBytes(), (value, created) -> true) != null) {
      return MemoryRoom.Outcome.PRESENT;
    }
    boolean isStored =
        hasRoom(store, answer.keyBytes().length + answer.valueBytes().length)
            && disk.keepFound(answer) == Store.Placed.STORED;
    return isStored ? MemoryRoom.Outcome.STORED : MemoryRoom.Outcome.REFUSED;
  }

  /** Returns whether an entry of this size, in bytes, can be stored without filling the store beyond its share. */
  private boolean hasRoom(Store store, int bytes) {
    Store.Stats stats = store.stats();
    return stats.liveBytes() + stats.entries() * ENTRY_BYTES_EXTRA + bytes < SHARE * disk.stores().spec().limitBytes();
  }
}

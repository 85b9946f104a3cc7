package org.refdb.gerrit.cache.store;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import org.refdb.engine.Cache;

/**
 * The bytes of one cache in one version on disk. No call waits for a disk, but changes that are to be durable. Safe for
 * use by many threads.
 */
public interface Store extends AutoCloseable {
  /**
   * The figures of a store, each known without a scan.
   *
   * @param entries live entries
   * @param liveBytes bytes of the live keys and values
   * @param diskBytes bytes the files take
   * @param refusedPuts puts that found no room without waiting
   * @param evictions entries dropped to keep the limit
   */
  record Stats(long entries, long liveBytes, long diskBytes, long refusedPuts, long evictions) {}

  /** What administrators do to a store, beside its users. */
  interface Upkeep {
    /** The engine's figures since the store was opened, by name; known without a scan. */
    Map<String, Long> figures();

    /** Reads every record and checks that it is whole. */
    Cache.Verified verify();

    /** Frees the dead space in the files and waits for it; returns how many bytes they lost. */
    long compact();

    /** Shows every entry, without its value. */
    void forEach(Cache.Visitor visitor);

    /** Writes all entries to a stream, as {@code refdb cache export} does; returns how many. */
    long exportTo(OutputStream to);

    /** Takes the entries of such a stream; a present entry that is as new stays. */
    Cache.Imported importFrom(InputStream from);
  }

  /** Returns what the reader makes of the entry, or null if there is none that can be proved whole. */
  <T> T get(byte[] key, Cache.Reader<T> reader);

  /**
   * Stores an entry.
   *
   * @param durable return only when it would survive a power cut; it is not refused for want of room then
   * @return false if it was refused (no room without waiting, or too large): then the key has no value
   */
  boolean put(byte[] key, byte[] value, long createdMillis, boolean durable);

  /** What became of an entry that was placed. */
  enum Placed {
    /** It is there, before all later changes. */
    STORED,
    /** It is refused for good; the key has no value. */
    REFUSED,
    /** There was no room just now; the key has no value. */
    NO_ROOM
  }

  /**
   * Stores an entry at once or not at all: waits neither for room nor for a disk. For who holds a lock.
   *
   * @param durable it may use room that others may not; {@link #settle} waits until it would survive a power cut
   */
  Placed place(byte[] key, byte[] value, long createdMillis, boolean durable);

  /** Returns when all changes so far would survive a power cut. */
  void settle();

  /** Removes the entry of a key; returns, if {@code durable}, when that would survive a power cut. */
  void invalidate(byte[] key, boolean durable);

  /** Removes all entries; returns, if {@code durable}, when that would survive a power cut. */
  void clear(boolean durable);

  /** The present figures. */
  Stats stats();

  /** For administrators. */
  Upkeep upkeep();

  /** Frees the files; what was stored so far can be read by the next opener. */
  @Override
  void close();
}

package org.refdb.gerrit.cache.store;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import org.refdb.engine.Cache;

/**
 * The bytes of one cache in one version on disk. Changes that are not durable wait for no sync, unless {@link #clear}
 * finds no room. Safe for use by several threads. Except for {@link #close}, the methods throw an {@link
 * java.io.UncheckedIOException} if the engine fails.
 */
public interface Store extends AutoCloseable {
  /**
   * The statistics of a store, all of which are known without a scan.
   *
   * @param entries the number of live entries
   * @param liveBytes the size of the records of the live entries in bytes
   * @param diskBytes the size of the files in bytes
   * @param refusedPuts attempts to store an entry that found no room
   * @param evictions entries that were dropped to stay within the limit, or because they had expired or were damaged
   */
  record Stats(long entries, long liveBytes, long diskBytes, long refusedPuts, long evictions) {}

  /** Operations of administrators on a store, which run beside its users. */
  interface Upkeep {
    /** Returns the statistics of the engine since the store was opened, by name, without a scan. */
    Map<String, Long> figures();

    /** Reads and verifies every record. */
    Cache.Verified verify();

    /**
     * Frees dead space in the files as {@link Cache#compact} does, and waits for it. Returns the number of bytes by
     * which the files shrank.
     */
    long compact();

    /** Visits every intact entry, without its value. */
    void forEach(Cache.Visitor visitor);

    /**
     * Visits every intact entry with its value. An entry that changes meanwhile is visited in its old or new form, or
     * not at all if it is removed or evicted; rarely, in both.
     */
    void forEachWithValue(Cache.Visitor visitor);

    /** Writes all intact entries to a stream, as {@code refdb cache export} does. Returns their number. */
    long exportTo(OutputStream to);

    /** Imports the entries of an export. An entry of the store that is as new as the exported one or newer is kept. */
    Cache.Imported importFrom(InputStream from);
  }

  /** Returns what the reader makes of the entry, or null if there is none that is intact and not too old. */
  <T> T get(byte[] key, Cache.Reader<T> reader);

  /**
   * Stores an entry.
   *
   * @param createdMillis when the value was created, in milliseconds since 1970
   * @param durable whether to return only when the entry would survive a loss of power; it is then not refused for
   *     want of room
   * @return false if the entry was refused, because it is too large or found no room in time, and the key then has no
   *     value; or because the store is read-only, and keeps what it had
   */
  boolean put(byte[] key, byte[] value, long createdMillis, boolean durable);

  /** The result of placing an entry. */
  enum Placed {
    /** The entry is stored, before all later changes. */
    STORED,
    /** The entry is too large, so the key has no value; or the store is read-only, and keeps what it had. */
    REFUSED,
    /** There was no room at the moment, so the key has no value. */
    NO_ROOM
  }

  /**
   * Stores an entry immediately or not at all, for a caller that holds a lock. It waits neither for room nor for a
   * disk.
   *
   * @param durable whether the entry may use room that others may not; {@link #settle} waits until it would survive a
   *     loss of power
   */
  Placed place(byte[] key, byte[] value, long createdMillis, boolean durable);

  /** Waits until all changes so far would survive a loss of power. */
  void settle();

  /**
   * Removes the entry of a key. If {@code durable} is set, this returns when the removal would survive a loss of
   * power.
   */
  void invalidate(byte[] key, boolean durable);

  /** Removes all entries. If {@code durable} is set, this returns when the removal would survive a loss of power. */
  void clear(boolean durable);

  /** Returns the current statistics. */
  Stats stats();

  /** Returns the operations for administrators. */
  Upkeep upkeep();

  /** Closes the files. Unless the disk fails, whatever was stored so far can be read after they are opened again. */
  @Override
  void close();
}

package org.refdb.engine;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A persistent cache that maps byte strings to byte strings. It consists of a log of segments on disk and an index in
 * native memory, and never exceeds its limit in bytes. It keeps nothing on the Java heap.
 *
 * <p>Any number of threads may use a cache. A read of an intact record never waits for a writer. A {@link
 * Durability#BUFFERED} write waits for no sync, and at most 200 ms for room, except in {@link #clear}. Each read is
 * verified: a torn or foreign value is a miss.
 */
public final class Cache implements AutoCloseable {
  /** The smallest permitted limit, in bytes. */
  public static final long SMALLEST_LIMIT_BYTES = 1 << 20;

  private static final int STORED = 0;
  private static final Placed[] PLACED = Placed.values();

  /** A flag that is added to a durability: the put waits for nothing. */
  private static final int AT_ONCE = 4;

  /** The longest value in bytes that is returned through the exchange buffer; the library has the same constant. */
  private static final int SHORT_VALUE_BYTES = 16 << 10;

  /** The number of bytes before the value in an answer, which hold the time of its creation. */
  private static final int CREATED_BYTES = 8;

  /** The condition under which a write returns. */
  public enum Durability {
    /**
     * Readers in this process see the write. It usually reaches the file within milliseconds, but {@code kill -9} may
     * lose it before.
     */
    BUFFERED,
    /**
     * The operating system has the write, which therefore survives {@code kill -9}. The call waits while the disk
     * falls behind.
     */
    WRITTEN,
    /** The write is on stable storage, and survives a loss of power. The call waits for the disk. */
    SYNCED
  }

  /**
   * The options for opening a cache.
   *
   * @param root the folder of all caches
   * @param name the name of the cache; any text is mapped to a single folder below the root
   * @param version the version of the serialisation of the values, 0 or more; values of other versions are never
   *     returned
   * @param limitBytes the maximum size of all files together, at least {@link #SMALLEST_LIMIT_BYTES}; no entry may be
   *     larger than an eighth of it, or than 256 MiB
   * @param maxAge the age above which entries are misses; null for no limit
   * @param key 32 random bytes with which entries are encrypted; null for no encryption
   * @param oldKeys keys with which the cache may have been encrypted before; if one of them fits, {@code key} replaces
   *     it, or, if {@code key} is null, all entries are deleted
   */
  public record Options(
      Path root, String name, int version, long limitBytes, Duration maxAge, byte[] key, List<byte[]> oldKeys) {}

  /**
   * A value that was found.
   *
   * @param value the value
   * @param createdMillis when the value was created, in milliseconds since 1970
   */
  public record Found(byte[] value, long createdMillis) {}

  /**
   * The result of a walk over all records.
   *
   * @param good the number of intact records
   * @param bad the number of damaged records, which are misses
   */
  public record Verified(long good, long bad) {}

  /**
   * The result of an import.
   *
   * @param stored the number of entries that were stored
   * @param kept the number of entries that were not stored, because the cache has a value for the key that is as new or
   *     newer, or because the key may have been changed during the import
   * @param tooLarge the number of entries that are larger than the limit permits; older values of their keys were
   *     removed
   */
  public record Imported(long stored, long kept, long tooLarge) {}

  /** Visits the entries of a cache. */
  @FunctionalInterface
  public interface Visitor {
    /**
     * Visits an entry.
     *
     * @param value the value, or null if the walk does not pass values
     * @param createdMillis when the value was created, in milliseconds since 1970
     * @param uses the number of reads since the key got a value, the cache was opened or an eviction last spared the
     *     entry, whichever came last; 3 at most. A value that replaces another keeps its number
     * @param diskBytes the size of the entry on disk
     * @return whether to continue
     */
    boolean visit(byte[] key, byte[] value, long createdMillis, int uses, long diskBytes);
  }

  private final Handle handle;

  private Cache(long id) {
    handle = new Handle(id, Cache::closeQuietly);
  }

  /**
   * Opens a cache for reading and writing, and creates it if it does not exist. It can be open in this way only once at
   * a time. Files that are damaged, of an older format, encrypted with a key that is not given, or not encrypted
   * although a key is given, are deleted, and so are all encrypted files if {@code key} is null; {@link #notices} says
   * so, except about what a crash may leave and about segments of another cache.
   *
   * @throws EngineException of kind LOCKED if the cache is open for writing already; of kind REFUSED if the limit is
   *     out of range, or a newer program wrote the cache; of kind IO if an operation on a file fails
   */
  public static Cache open(Options options) throws EngineException {
    return new Cache(CacheNatives.open(request(options, false)));
  }

  /**
   * Opens the current state of a cache for reading, even while another process writes to it. The limit, the maximum
   * age and the old keys in the options are not used. Changes are refused with an exception of kind REFUSED.
   *
   * @throws EngineException if the cache does not exist or cannot be read; of kind REFUSED if, for example, the key
   *     does not fit, or the cache has too many segments
   */
  public static Cache openToRead(Options options) throws EngineException {
    return new Cache(CacheNatives.open(request(options, true)));
  }

  private static byte[] request(Options options, boolean toRead) {
    Packer packer = place(options.root, options.name, options.version);
    packer.i64(options.limitBytes).i64(options.maxAge == null ? -1 : options.maxAge.toMillis());
    packer.bytes(options.key == null ? new byte[0] : options.key).i32(options.oldKeys.size());
    options.oldKeys.forEach(packer::bytes);
    return packer.u8(toRead ? 1 : 0).toByteArray();
  }

  private static Packer place(Path root, String name, int version) {
    return new Packer()
        .bytes(root.toAbsolutePath().toString().getBytes(StandardCharsets.UTF_8))
        .bytes(name.getBytes(StandardCharsets.UTF_8))
        .i32(version);
  }

  /**
   * Deletes those versions of a cache that no process has open for writing, except {@code keep}. Files that are not
   * named like those of a cache stay, and their folder with them. Returns the number of deleted folders.
   */
  public static int cleanVersions(Path root, String name, int keep) throws EngineException {
    return CacheNatives.cleanVersions(place(root, name, keep).toByteArray());
  }

  /** Returns the value of a key, or null if it has none that can be read at the moment. */
  public Found get(byte[] key) throws EngineException {
    return get(key, Found::new);
  }

  /** Converts a value that was found. */
  @FunctionalInterface
  public interface Reader<T> {
    /**
     * Converts the value.
     *
     * @param value the value, which the reader may keep
     * @param createdMillis when the value was created, in milliseconds since 1970
     */
    T read(byte[] value, long createdMillis);
  }

  /**
   * Returns what {@code reader} makes of the value of a key, or null if the key has no value that can be read at the
   * moment.
   */
  public <T> T get(byte[] key, Reader<T> reader) throws EngineException {
    Exchange exchange = Exchange.own();
    byte[] value;
    long created;
    try {
      if (key.length > Exchange.BYTES - CREATED_BYTES) {
        value = CacheNatives.getArray(handle.id(), exchange.address, 0, key);
        created = exchange.readLong(0);
      } else {
        exchange.write(0, key);
        value = getShort(exchange, key.length);
        created = exchange.readLong(key.length);
      }
    } finally {
      exchange.keepAlive();
      handle.keepAlive();
    }
    return value == null ? null : reader.read(value, created);
  }

  /**
   * Returns the value of the key that the exchange buffer contains; null if there is none. A short value comes through
   * the buffer, and a longer one in an array of its own.
   */
  private byte[] getShort(Exchange exchange, int keyLength) throws EngineException {
    int length = CacheNatives.get(handle.id(), exchange.address, keyLength);
    if (length < 0) {
      return null;
    }
    if (length <= Math.min(SHORT_VALUE_BYTES, Exchange.BYTES - CREATED_BYTES - keyLength)) {
      return exchange.read(keyLength + CREATED_BYTES, length);
    }
    return CacheNatives.getArray(handle.id(), exchange.address, keyLength, null);
  }

  /**
   * Stores a value.
   *
   * @param createdMillis when the value was created, in milliseconds since 1970
   * @return false if the value was refused, because the entry is larger than the limit permits or, for a buffered put,
   *     because it found no room in time; the key then has no value
   * @throws EngineException of kind IO if the entry cannot be encrypted, or if the put is written or synced, and its
   *     write or sync fails, or it finds no room for 30 seconds, or none while all writes to the disk fail for 2
   *     seconds; the value may be visible then, but need not be durable
   */
  public boolean put(byte[] key, byte[] value, long createdMillis, Durability durability) throws EngineException {
    return store(key, value, createdMillis, durability.ordinal()) == STORED;
  }

  /** The result of a put that waits for nothing. */
  public enum Placed {
    /** The put has its place in the order of changes; {@link Cache#flush} waits until it is durable. */
    STORED,
    /** The entry is larger than the limit permits, so the key now has no value. */
    TOO_LARGE,
    /** There was no room in the write buffer or within the limit, so the key now has no value. */
    NO_ROOM
  }

  /**
   * Stores a value immediately or not at all, for a caller that holds a lock. It waits neither for room nor for a
   * disk.
   *
   * @param durability the urgency: a put that is not buffered may use room that buffered ones may not
   * @throws EngineException of kind IO if the entry cannot be encrypted, or if the put is not buffered and the disk
   *     takes nothing at all
   */
  public Placed place(byte[] key, byte[] value, long createdMillis, Durability durability) throws EngineException {
    return PLACED[store(key, value, createdMillis, durability.ordinal() | AT_ONCE)];
  }

  private int store(byte[] key, byte[] value, long createdMillis, int durability) throws EngineException {
    if ((long) key.length + value.length > Exchange.BYTES) {
      return handle.call(id -> CacheNatives.putLarge(id, key, value, createdMillis, durability));
    }
    Exchange exchange = Exchange.own();
    try {
      exchange.write(0, key);
      exchange.write(key.length, value);
      return CacheNatives.put(handle.id(), exchange.address, key.length, value.length, createdMillis, durability);
    } finally {
      exchange.keepAlive();
      handle.keepAlive();
    }
  }

  /**
   * Removes the value of a key. Returns whether the key had one; for a while after a cache with more than a million
   * records was opened, the answer may be false although the key had one.
   *
   * @throws EngineException of kind IO if the removal is not buffered, and the disk fails or there is no room for it
   *     for 30 seconds; the value is gone then, but may be back after a crash
   */
  public boolean remove(byte[] key, Durability durability) throws EngineException {
    return handle.call(id -> CacheNatives.remove(id, key, durability.ordinal()));
  }

  /**
   * Removes all entries, at a cost that does not depend on their number. If an earlier call has used the last room,
   * this waits for at most 30 seconds until there is some.
   *
   * @throws EngineException of kind IO if there is still no room, in which case nothing is removed, or if the disk
   *     fails, in which case the entries are removed, but may be back after a crash
   */
  public void clear(Durability durability) throws EngineException {
    handle.run(id -> CacheNatives.clear(id, durability.ordinal()));
  }

  /** Waits until everything that was written before is as durable as requested. */
  public void flush(Durability durability) throws EngineException {
    handle.run(id -> CacheNatives.flush(id, durability.ordinal()));
  }

  /**
   * Returns statistics since the cache was opened, by name, as the documentation of the engine explains them. This
   * does not scan the cache.
   */
  public Map<String, Long> stats() throws EngineException {
    Unpacker unpacker = new Unpacker(handle.call(id -> CacheNatives.stats(id)));
    Map<String, Long> stats = new LinkedHashMap<>();
    for (int left = unpacker.i32(); left > 0; left--) {
      stats.put(unpacker.text(), unpacker.i64());
    }
    return stats;
  }

  /** Returns what was wrong with the files when the cache was opened, as messages for a log. */
  public List<String> notices() throws EngineException {
    Unpacker unpacker = new Unpacker(handle.call(id -> CacheNatives.notices(id)));
    List<String> notices = new ArrayList<>();
    for (int left = unpacker.i32(); left > 0; left--) {
      notices.add(unpacker.text());
    }
    return notices;
  }

  /**
   * Visits every intact entry, expired ones included, first a few and then the others file by file. An entry that
   * changes during the walk is visited in its old or new form, or not at all if it is removed or evicted; rarely, in
   * both.
   *
   * @param values whether to pass the values too, which have to be copied to arrays of Java
   * @return the numbers of intact and damaged records; if the visitor stopped the walk, the number of entries that it
   *     visited, and 0
   */
  public Verified forEach(boolean values, Visitor visitor) throws EngineException {
    return verified(handle.call(id -> CacheNatives.forEach(id, values, visitor)));
  }

  /** Reads every record and verifies it. The cache can be used at the same time. */
  public Verified verify() throws EngineException {
    return verified(handle.call(id -> CacheNatives.verify(id)));
  }

  private static Verified verified(byte[] answer) {
    Unpacker unpacker = new Unpacker(answer);
    return new Verified(unpacker.i64(), unpacker.i64());
  }

  /**
   * Frees the dead space of all segments that have no live entry, or of which at least a tenth and 512 bytes are dead,
   * and returns when this is done. A segment whose live entries cannot be copied for lack of room stays as it is.
   * Returns the number of bytes by which the files shrank.
   */
  public long compact() throws EngineException {
    return new Unpacker(handle.call(id -> CacheNatives.compact(id))).i64();
  }

  /**
   * Writes all intact entries to a stream, decrypted and with their ages. The cache can be used at the same time.
   *
   * @return the number of entries
   * @throws IOException for example if the stream throws it
   */
  public long exportTo(OutputStream to) throws IOException {
    return new Unpacker(handle.call(id -> CacheNatives.exportTo(id, to))).i64();
  }

  /**
   * Stores the entries of an export of a cache of the same name and version, except those that {@link Imported} counts
   * as kept or too large. The cache can be used at the same time.
   *
   * <p>If the import fails, the entries that were stored before remain. None of them is damaged, unless the export is
   * of format version 2, whose only checksum is at its end.
   *
   * @throws EngineException of kind CORRUPT if the export is truncated, damaged or of a format version that is neither
   *     the present one nor 2; of kind REFUSED if it is that of another cache; of kind IO if the cache cannot be
   *     written
   * @throws IOException if the stream throws it
   */
  public Imported importFrom(InputStream from) throws IOException {
    Unpacker unpacker = new Unpacker(handle.call(id -> CacheNatives.importFrom(id, from)));
    return new Imported(unpacker.i64(), unpacker.i64(), unpacker.i64());
  }

  /** Writes the buffered entries to disk and closes the files. Closing a cache again does nothing. */
  @Override
  public void close() {
    handle.close();
  }

  private static void closeQuietly(long id) {
    try {
      CacheNatives.close(id);
    } catch (EngineException e) {
      // Nothing is left to do: because of this error the cache has deleted all its entries, as far as the disk let it,
      // so that no value comes back that was replaced or removed.
      System.getLogger(Cache.class.getName()).log(System.Logger.Level.WARNING, e.getMessage());
    }
  }
}

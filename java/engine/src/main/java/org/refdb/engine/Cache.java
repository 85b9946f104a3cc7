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
 * A persistent cache of bytes by bytes. It has a log of segments on disk, its index in native memory, and a byte limit
 * that always holds. Nothing of an entry is on Java's heap.
 *
 * <p>Safe for use by any number of threads. A read never waits for a writer; a {@link Durability#BUFFERED} write never
 * waits for a disk. Each read is checked: a torn or foreign value is a miss.
 */
public final class Cache implements AutoCloseable {
  /** The smallest limit, in bytes. */
  public static final long SMALLEST_LIMIT_BYTES = 1 << 20;

  private static final int STORED = 0;
  private static final Placed[] PLACED = Placed.values();

  /** Beside a durability: the put waits for nothing. */
  private static final int AT_ONCE = 4;

  /** Longer values do not come through the exchange buffer; the library says the same. */
  private static final int SHORT_VALUE_BYTES = 16 << 10;

  /** What stands before a value in an answer. */
  private static final int CREATED_BYTES = 8;

  /** When a write counts as done. */
  public enum Durability {
    /**
     * When this process's readers see it. It reaches the file within milliseconds, which {@code kill -9} may cut off.
     */
    BUFFERED,
    /** When the operating system has it: it survives {@code kill -9}. Waits while the disk is behind. */
    WRITTEN,
    /** When stable storage has it: it survives a power cut. Waits for the disk. */
    SYNCED
  }

  /**
   * How a cache is opened.
   *
   * @param root the folder of all caches
   * @param name the cache; any text is one folder below root
   * @param version of what the values mean, 0 or more; another version's values are never seen
   * @param limitBytes the most the files take together, at least {@link #SMALLEST_LIMIT_BYTES}
   * @param maxAge older entries are misses; null for no limit
   * @param key 32 random bytes that entries are encrypted with; null for none
   * @param oldKeys keys it may have been encrypted with before
   */
  public record Options(
      Path root, String name, int version, long limitBytes, Duration maxAge, byte[] key, List<byte[]> oldKeys) {}

  /**
   * A value that was found.
   *
   * @param value the value
   * @param createdMillis when it was made, in milliseconds since 1970
   */
  public record Found(byte[] value, long createdMillis) {}

  /**
   * What a walk over all records found.
   *
   * @param good whole ones
   * @param bad harmed ones, which are misses
   */
  public record Verified(long good, long bad) {}

  /**
   * What an import did.
   *
   * @param stored entries stored
   * @param kept entries whose key has a value that is as new or newer, or was changed just then
   * @param tooLarge entries larger than an eighth of the limit
   */
  public record Imported(long stored, long kept, long tooLarge) {}

  /** Is shown the entries of a cache. */
  @FunctionalInterface
  public interface Visitor {
    /**
     * Takes an entry.
     *
     * @param value the value, or null if the walk goes without values
     * @param createdMillis when it was made, in milliseconds since 1970
     * @param uses how often it was read since it was last copied, 0 to 3
     * @param diskBytes what it takes on disk
     * @return whether to go on
     */
    boolean visit(byte[] key, byte[] value, long createdMillis, int uses, long diskBytes);
  }

  private final Handle handle;

  private Cache(long id) {
    handle = new Handle(id, Cache::closeQuietly);
  }

  /**
   * Opens a cache for reading and writing; makes it if there is none. One process at a time may do so.
   *
   * @throws EngineException of kind LOCKED if it is open elsewhere
   */
  public static Cache open(Options options) throws EngineException {
    return new Cache(CacheNatives.open(request(options, false)));
  }

  /** Opens a cache as it stands, for reading, also while another process writes it. */
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

  /** Deletes the other versions of a cache that nobody has open; returns how many there were. */
  public static int cleanVersions(Path root, String name, int keep) throws EngineException {
    return CacheNatives.cleanVersions(place(root, name, keep).toByteArray());
  }

  /** The value of a key, or null. */
  public Found get(byte[] key) throws EngineException {
    return get(key, Found::new);
  }

  /** Makes something of a value that was found. */
  @FunctionalInterface
  public interface Reader<T> {
    /**
     * Takes the value.
     *
     * @param value the reader's own
     * @param createdMillis when it was made, in milliseconds since 1970
     */
    T read(byte[] value, long createdMillis);
  }

  /** What a reader makes of the value of a key, or null. Nothing is allocated but the value's array. */
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

  /** The value of a key that stands in the exchange buffer. A short one comes through it, others in their array. */
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
   * Puts a value.
   *
   * @param createdMillis when the value was made, in milliseconds since 1970
   * @return false if it was refused. It is larger than an eighth of the limit, or the write buffer was full.
   *     The key has no value then
   */
  public boolean put(byte[] key, byte[] value, long createdMillis, Durability durability) throws EngineException {
    return store(key, value, createdMillis, durability.ordinal()) == STORED;
  }

  /** What became of a put that waits for nothing. */
  public enum Placed {
    /** It has its place among the changes; {@link Cache#flush} waits until that is durable. */
    STORED,
    /** The entry is larger than an eighth of the limit. The key has no value now. */
    TOO_LARGE,
    /** There was no room just now. The key has no value now. */
    NO_ROOM
  }

  /**
   * Puts a value at once or not at all, for a caller that holds a lock. It waits neither for room nor for a disk.
   *
   * @param durability tells how urgent it is: a durable put may use room that other puts may not
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

  /** Removes a key. Returns whether it had a value. */
  public boolean remove(byte[] key, Durability durability) throws EngineException {
    return handle.call(id -> CacheNatives.remove(id, key, durability.ordinal()));
  }

  /** Removes everything, at the same cost however much there is. */
  public void clear(Durability durability) throws EngineException {
    handle.run(id -> CacheNatives.clear(id, durability.ordinal()));
  }

  /** Returns when all that was written before is as durable as asked. */
  public void flush(Durability durability) throws EngineException {
    handle.run(id -> CacheNatives.flush(id, durability.ordinal()));
  }

  /** The figures since it was opened by name, as the engine's documentation explains them; no scan is made for them. */
  public Map<String, Long> stats() throws EngineException {
    Unpacker unpacker = new Unpacker(handle.call(id -> CacheNatives.stats(id)));
    Map<String, Long> stats = new LinkedHashMap<>();
    for (int left = unpacker.i32(); left > 0; left--) {
      stats.put(unpacker.text(), unpacker.i64());
    }
    return stats;
  }

  /** What was wrong with the files when it was opened, each worth a line in a log. */
  public List<String> notices() throws EngineException {
    Unpacker unpacker = new Unpacker(handle.call(id -> CacheNatives.notices(id)));
    List<String> notices = new ArrayList<>();
    for (int left = unpacker.i32(); left > 0; left--) {
      notices.add(unpacker.text());
    }
    return notices;
  }

  /**
   * Shows every entry, in the order of the files. Entries that change meanwhile are shown old or new or not at all.
   *
   * @param values whether to show values too, which costs reading them into arrays
   * @return what was seen until the visitor had enough
   */
  public Verified forEach(boolean values, Visitor visitor) throws EngineException {
    return verified(handle.call(id -> CacheNatives.forEach(id, values, visitor)));
  }

  /** Reads every record and checks that it is whole. Others may go on using the cache. */
  public Verified verify() throws EngineException {
    return verified(handle.call(id -> CacheNatives.verify(id)));
  }

  private static Verified verified(byte[] answer) {
    Unpacker unpacker = new Unpacker(answer);
    return new Verified(unpacker.i64(), unpacker.i64());
  }

  /** Frees the dead space in the files and waits for it; returns how many bytes they lost. */
  public long compact() throws EngineException {
    return new Unpacker(handle.call(id -> CacheNatives.compact(id))).i64();
  }

  /**
   * Writes all entries, decrypted, with their ages, also while others use the cache. What the stream throws is thrown.
   *
   * @return how many
   */
  public long exportTo(OutputStream to) throws IOException {
    return new Unpacker(handle.call(id -> CacheNatives.exportTo(id, to))).i64();
  }

  /**
   * Puts all entries of an export of a cache of this name and version, also while others use the cache. What the stream
   * throws is thrown; what was put until then stays.
   *
   * @throws EngineException of kind CORRUPT if the export is cut or harmed, of kind REFUSED if it is another cache's
   */
  public Imported importFrom(InputStream from) throws IOException {
    Unpacker unpacker = new Unpacker(handle.call(id -> CacheNatives.importFrom(id, from)));
    return new Imported(unpacker.i64(), unpacker.i64(), unpacker.i64());
  }

  /** Writes its memory to disk and lets go of the files. Closing twice does nothing. */
  @Override
  public void close() {
    handle.close();
  }

  private static void closeQuietly(long id) {
    try {
      CacheNatives.close(id);
    } catch (EngineException e) {
      // What could not be written is missing at the next start, as after a crash; the disk's error was counted.
      System.getLogger(Cache.class.getName()).log(System.Logger.Level.WARNING, e.getMessage());
    }
  }
}

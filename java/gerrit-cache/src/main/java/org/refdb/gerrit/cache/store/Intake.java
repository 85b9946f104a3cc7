package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.refdb.engine.Cache;
import org.refdb.engine.EngineException;

/** Fills one cache while no server is running, and counts the entries. Not safe for use by several threads. */
public final class Intake implements AutoCloseable {
  /**
   * The minimum limit, in bytes, of a cache whose limit is not configured. A server that opens the cache later applies
   * its own.
   */
  private static final long USUAL_LIMIT_BYTES = 128 << 20;

  private final Cache store;
  private final List<String> remarks = new ArrayList<>();
  private long entries;
  private long bytes;
  private long tooLarge;
  private EngineException failure;

  private Intake(Cache store) {
    this.store = store;
  }

  /**
   * Opens the cache, creates it if it does not exist, and removes its other versions, because a Gerrit of such a
   * version would serve them.
   *
   * @param root the folder of all caches of refdb
   * @param diskLimit the configured limit in bytes, or null
   * @param expectedBytes the approximate size of what is to be stored, which is used if no limit is configured
   * @throws StoreOpener.InUseException if a server has the cache open
   * @throws IOException if the cache cannot be opened
   */
  public static Intake open(
      Path root, String cache, int version, Long diskLimit, long expectedBytes, EncryptionKeys keys) throws IOException {
    long limit = diskLimit != null ? diskLimit : Math.max(USUAL_LIMIT_BYTES, USUAL_LIMIT_BYTES / 2 + 2 * expectedBytes);
    Cache.Options options =
        new Cache.Options(
            root, cache, version, Math.max(limit, Cache.SMALLEST_LIMIT_BYTES), null, keys.current(), keys.old());
    try {
      Intake intake = new Intake(Cache.open(options));
      intake.removeOtherVersions(root, cache, version);
      return intake;
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        throw new StoreOpener.InUseException(e.getMessage() + "; stop Gerrit first", e);
      }
      throw e;
    }
  }

  private void removeOtherVersions(Path root, String cache, int keep) {
    try {
      Cache.cleanVersions(root, cache, keep);
    } catch (EngineException e) {
      remarks.add("what refdb has of another version stays, delete it: " + e.getMessage());
    }
  }

  /** Removes all entries. */
  public void clear() throws IOException {
    store.clear(Cache.Durability.SYNCED);
  }

  /** Stores an entry. Returns false if the store fails; {@link #finish} then throws the error. */
  public boolean take(byte[] key, byte[] value, long createdMillis) {
    try {
      // The second put waits for the disk, so it refuses only entries that are too large.
      if (store.put(key, value, createdMillis, Cache.Durability.BUFFERED)
          || store.put(key, value, createdMillis, Cache.Durability.WRITTEN)) {
        entries++;
        bytes += key.length + value.length;
      } else {
        tooLarge++;
      }
    } catch (EngineException e) {
      failure = e;
    }
    return failure == null;
  }

  /**
   * Waits until all entries would survive a loss of power. Returns messages about entries that were not stored and
   * other versions that could not be removed.
   */
  public List<String> finish() throws IOException {
    if (failure != null) {
      throw failure;
    }
    store.flush(Cache.Durability.SYNCED);
    if (tooLarge > 0) {
      remarks.add(tooLarge + " entries larger than an eighth of the cache's diskLimit or than 256 MiB");
    }
    long evicted = store.stats().get("evicted");
    if (evicted > 0) {
      remarks.add(evicted + " entries beyond the cache's diskLimit");
    }
    return remarks;
  }

  /** Returns how many entries were stored, including those that were evicted since. */
  public long entries() {
    return entries;
  }

  /** Returns the size of the keys and values of these entries in bytes. */
  public long bytes() {
    return bytes;
  }

  @Override
  public void close() {
    store.close();
  }
}

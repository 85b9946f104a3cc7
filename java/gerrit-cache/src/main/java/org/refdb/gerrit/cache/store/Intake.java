package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.refdb.engine.Cache;
import org.refdb.engine.EngineException;

/** Fills one cache while no server runs, and counts what it takes. Not for more than one thread. */
public final class Intake implements AutoCloseable {
  /** A cache whose limit is not configured has at least this. The server applies the cache's own when it opens it. */
  private static final long USUAL_LIMIT_BYTES = 128 << 20;

  private final Cache store;
  private long entries;
  private long bytes;
  private long tooLarge;
  private EngineException failure;

  private Intake(Cache store) {
    this.store = store;
  }

  /**
   * Opens it; makes it if there is none.
   *
   * @param root the folder of all refdb's caches
   * @param diskLimit the configured one, in bytes, or null
   * @param expectedBytes about how much is to come, which counts where nothing is configured
   * @throws StoreOpener.InUseException if a server has it open
   */
  public static Intake open(
      Path root, String cache, int version, Long diskLimit, long expectedBytes, EncryptionKeys keys) throws IOException {
    long limit = diskLimit != null ? diskLimit : Math.max(USUAL_LIMIT_BYTES, USUAL_LIMIT_BYTES / 2 + 2 * expectedBytes);
    try {
      return new Intake(
          Cache.open(
              new Cache.Options(
                  root, cache, version, Math.max(limit, Cache.SMALLEST_LIMIT_BYTES), null, keys.current(), keys.old())));
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        throw new StoreOpener.InUseException(e.getMessage() + "; stop Gerrit first", e);
      }
      throw e;
    }
  }

  /** Removes what it has. */
  public void clear() throws IOException {
    store.clear(Cache.Durability.SYNCED);
  }

  /** Takes an entry; false if the store fails, which {@link #finish} throws. */
  public boolean take(byte[] key, byte[] value, long createdMillis) {
    try {
      // The second waits for the disk: then only a too large entry is refused.
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

  /** Returns when all of it would survive a power cut; says what was not taken. */
  public List<String> finish() throws IOException {
    if (failure != null) {
      throw failure;
    }
    store.flush(Cache.Durability.SYNCED);
    List<String> remarks = new ArrayList<>();
    if (tooLarge > 0) {
      remarks.add(tooLarge + " entries larger than an eighth of the cache's diskLimit");
    }
    long evicted = store.stats().get("evicted");
    if (evicted > 0) {
      remarks.add(evicted + " entries, those used longest ago, beyond the cache's diskLimit");
    }
    return remarks;
  }

  /** How many were taken. */
  public long entries() {
    return entries;
  }

  /** Bytes of their keys and values. */
  public long bytes() {
    return bytes;
  }

  @Override
  public void close() {
    store.close();
  }
}

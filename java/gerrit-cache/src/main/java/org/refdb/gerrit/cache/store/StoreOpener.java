package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/** Opens stores. */
public interface StoreOpener {
  /**
   * The store to be opened.
   *
   * @param directory the folder of all caches
   * @param name the cache, {@code PLUGIN.NAME} for a plugin's
   * @param version of the cache's serialisation; other versions' values are never served
   * @param limitBytes what the files may take, above 0
   * @param expireAfter values older than this need not be kept; null for never
   * @param keys what its content is encrypted with
   * @param textKeys whether the bytes of its keys are text, which is noted for a return to H2
   */
  record Spec(
      Path directory, String name, int version, long limitBytes, Duration expireAfter, EncryptionKeys keys, boolean textKeys) {
    @Override
    public String toString() {
      return "cache " + name + " of version " + version + " in " + directory;
    }
  }

  /** The files are another process's to write. */
  final class InUseException extends IOException {
    private static final long serialVersionUID = 1L;

    /** Says what uses them. */
    public InUseException(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /**
   * Opens a store for reading and writing.
   *
   * @throws InUseException if another process writes it
   * @throws IOException if it cannot be opened; the message says what can be done
   */
  Store open(Spec spec) throws IOException;

  /**
   * Opens a store that another process may be writing, for reading; an empty one where there is none.
   *
   * @throws IOException if it cannot be opened; the message says what can be done
   */
  Store openToRead(Spec spec) throws IOException;

  /** Removes the remains of other versions of this cache, unless it is in use. */
  void removeOtherVersions(Spec spec) throws IOException;
}

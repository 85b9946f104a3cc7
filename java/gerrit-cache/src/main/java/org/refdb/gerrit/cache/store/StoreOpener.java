package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/** Opens stores. */
public interface StoreOpener {
  /**
   * The store to open.
   *
   * @param directory the folder of all caches
   * @param name the name of the cache, {@code PLUGIN.NAME} for that of a plugin
   * @param version the version of the serialisation of the cache; values of other versions are never returned
   * @param limitBytes the maximum size of the files in bytes, at least 1 MiB in effect; 0 if there are none, because
   *     the cache is in memory and shared
   * @param expireAfter the age from which values need not be kept; null for no limit
   * @param keys the keys with which the content is encrypted
   * @param textKeys whether the bytes of the keys are text, which is recorded for a return to H2
   */
  record Spec(
      Path directory, String name, int version, long limitBytes, Duration expireAfter, EncryptionKeys keys, boolean textKeys) {
    /** Returns whether the cache has files. */
    public boolean hasFiles() {
      return limitBytes > 0;
    }

    @Override
    public String toString() {
      return "cache " + name + " of version " + version + " in " + directory;
    }
  }

  /** Thrown when another process has the files open for writing. */
  final class InUseException extends IOException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception with a message that says what uses the files. */
    public InUseException(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /**
   * Opens a store for reading and writing.
   *
   * @throws InUseException if another process writes to it
   * @throws IOException if the store cannot be opened; the message says what can be done
   */
  Store open(Spec spec) throws IOException;

  /**
   * Opens a store for reading, even while another process writes to it. Returns an empty store if it does not exist.
   *
   * @throws IOException if the store cannot be opened; the message says what can be done
   */
  Store openToRead(Spec spec) throws IOException;

  /** Deletes the other versions of this cache that no process has open for writing; files of other names stay. */
  void removeOtherVersions(Spec spec) throws IOException;
}

package org.refdb.gerrit.cache.chronicle;

import java.io.IOException;
import java.nio.file.Path;

/** Reads a file of cache-chroniclemap's. What does so is loaded only for an import, with ChronicleMap beside it. */
public interface EntryReader {
  /** Takes an entry; false ends the walk. */
  @FunctionalInterface
  interface Sink {
    /**
     * Takes it.
     *
     * @param createdMillis when it was made, in milliseconds since 1970
     */
    boolean take(byte[] key, byte[] value, long createdMillis);
  }

  /**
   * Shows every entry, in no order; returns how many there are. Nobody else may have the file open.
   *
   * @throws IOException if it cannot be read; the message names the file
   */
  long forEach(Path file, Sink sink) throws IOException;
}

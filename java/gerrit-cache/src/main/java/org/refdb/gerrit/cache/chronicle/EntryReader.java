package org.refdb.gerrit.cache.chronicle;

import java.io.IOException;
import java.nio.file.Path;

/** Reads files of cache-chroniclemap. */
public interface EntryReader {
  /** Receives the entries of a file. */
  @FunctionalInterface
  interface Sink {
    /**
     * Receives an entry. Returns false to end the walk.
     *
     * @param createdMillis when the entry was created, in milliseconds since 1970
     */
    boolean take(byte[] key, byte[] value, long createdMillis);
  }

  /**
   * Passes the entries to {@code sink}, in no particular order, until it returns false. Returns the number of entries
   * that it took. No other process may have the file open.
   *
   * @throws IOException if the file cannot be read; the message names the file
   */
  long forEach(Path file, Sink sink) throws IOException;
}

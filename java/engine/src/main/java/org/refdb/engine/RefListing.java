package org.refdb.engine;

import java.util.Arrays;

/** A list of refs that is being read, chunk by chunk. For one thread. */
public final class RefListing implements AutoCloseable {
  /** Most lists are short, and the long ones are read in chunks of a size that a cache holds. */
  private static final int FIRST_CHUNK_BYTES = 4 << 10;

  private static final int CHUNK_BYTES = 256 << 10;

  private final Handle handle;
  private int chunkBytes = FIRST_CHUNK_BYTES;

  RefListing(Handle handle) {
    this.handle = handle;
  }

  /**
   * The next rows: each is a name and what the ref holds.
   *
   * @return as many whole rows as fit into a chunk, at least one, in an array of their own; null at the end
   */
  public byte[] next() throws EngineException {
    byte[] chunk = new byte[chunkBytes];
    try {
      while (true) {
        int length = RefNatives.listNext(handle.id(), chunk);
        if (length > 0) {
          chunkBytes = CHUNK_BYTES;
          return Arrays.copyOf(chunk, length);
        }
        if (length == -1) {
          return null;
        }
        chunk = new byte[RefView.more(-1 - length, chunk.length)];
      }
    } finally {
      handle.keepAlive();
    }
  }

  /** Gives up what is left. */
  @Override
  public void close() {
    handle.close();
  }
}

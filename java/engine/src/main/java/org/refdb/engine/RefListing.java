package org.refdb.engine;

/** A list of refs that is being read, chunk by chunk. For one thread. */
public final class RefListing implements AutoCloseable {
  private final Handle handle;

  RefListing(Handle handle) {
    this.handle = handle;
  }

  /**
   * The next rows: each is a name and what the ref holds.
   *
   * @return whole rows in an array of their own; null at the end
   */
  public byte[] next() throws EngineException {
    try {
      byte[] rows = RefNatives.listNext(handle.id());
      return rows.length == 0 ? null : rows;
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

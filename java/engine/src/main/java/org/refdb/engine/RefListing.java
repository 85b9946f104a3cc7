package org.refdb.engine;

/** A list of refs that is being read, chunk by chunk. For one thread. */
public final class RefListing implements AutoCloseable {
  private final Handle handle;

  RefListing(Handle handle) {
    this.handle = handle;
  }

  /**
   * What proves that another list that the same view was asked for, in the same words, has the same rows: that it has an
   * equal proof. May be asked for at any time.
   *
   * @return null if it would be long
   */
  public byte[] proof() throws EngineException {
    try {
      byte[] proof = RefNatives.listProof(handle.id());
      return proof.length == 0 ? null : proof;
    } finally {
      handle.keepAlive();
    }
  }

  /**
   * The next rows.
   *
   * @return null at the end
   */
  public RefRows next() throws EngineException {
    try {
      byte[] chunk = RefNatives.listNext(handle.id());
      return chunk.length == 0 ? null : new RefRows(chunk);
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

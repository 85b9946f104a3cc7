package org.refdb.engine;

/** A list of refs that is read in chunks, by a single thread. */
public final class RefListing implements AutoCloseable {
  /** The first rows, which the library has already returned; null once {@link #next} has returned them. */
  private RefRows first;

  /** The handle for the rows that follow; null if there are none. */
  private final Handle handle;

  private final boolean hasUnreported;
  private final long version;

  private RefListing(RefRows first, Handle handle, boolean hasUnreported, long version) {
    this.first = first;
    this.handle = handle;
    this.hasUnreported = hasUnreported;
    this.version = version;
  }

  /**
   * Unpacks the first answer of the library: the first rows, the version, whether there may be unreported warnings, and
   * the handle for the rest or 0.
   */
  static RefListing begin(byte[] answer) {
    int end = answer.length - 3 * Long.BYTES;
    Unpacker numbers = new Unpacker(answer, end, answer.length);
    long version = numbers.i64();
    boolean hasUnreported = numbers.i64() != 0;
    long rest = numbers.i64();
    Handle handle = rest == 0 ? null : new Handle(rest, RefNatives::listClose);
    return new RefListing(end == 0 ? null : new RefRows(answer, end), handle, hasUnreported, version);
  }

  /** Returns the version of the view when the list was created, including all changes that were found by then. */
  public long version() {
    return version;
  }

  /**
   * Returns whether one of the methods {@code take...} of {@link EngineView}, which return warnings for a log, may have
   * something to return.
   */
  public boolean hasUnreported() {
    return hasUnreported;
  }

  /**
   * Returns the proof of this list, which may be requested at any time. Another list of this view that is requested
   * with the same arguments has the same rows if its proof is equal.
   *
   * @return null if the proof would be long, or if reading the list costs less than proving it
   */
  public byte[] proof() throws EngineException {
    if (handle == null) {
      return null;
    }
    byte[] proof = handle.call(id -> RefNatives.listProof(id));
    return proof.length == 0 ? null : proof;
  }

  /**
   * Returns the next rows.
   *
   * @return null at the end
   */
  public RefRows next() throws EngineException {
    if (first != null || handle == null) {
      RefRows rows = first;
      first = null;
      return rows;
    }
    byte[] chunk = handle.call(id -> RefNatives.listNext(id));
    return chunk.length == 0 ? null : new RefRows(chunk, chunk.length);
  }

  /** Releases the rest of the list. */
  @Override
  public void close() {
    if (handle != null) {
      handle.close();
    }
  }
}

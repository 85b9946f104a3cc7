package org.refdb.engine;

/** A list of refs that is being read, chunk by chunk. For one thread. */
public final class RefListing implements AutoCloseable {
  /** The rows that the library has given already; null once they were given out. */
  private RefRows first;

  /** Of what follows them; null if nothing does. */
  private final Handle handle;

  private final boolean hasUnreported;
  private final long version;

  private RefListing(RefRows first, Handle handle, boolean hasUnreported, long version) {
    this.first = first;
    this.handle = handle;
    this.hasUnreported = hasUnreported;
    this.version = version;
  }

  /** Reads the first answer of the library: first rows, version, news of broken refs, the handle of the rest or 0. */
  static RefListing begin(byte[] answer) {
    int end = answer.length - 3 * Long.BYTES;
    Unpacker numbers = new Unpacker(answer, end, answer.length);
    long version = numbers.i64();
    boolean hasUnreported = numbers.i64() != 0;
    long rest = numbers.i64();
    Handle handle = rest == 0 ? null : new Handle(rest, RefNatives::listClose);
    return new RefListing(end == 0 ? null : new RefRows(answer, end), handle, hasUnreported, version);
  }

  /** The view's version when the list was made, with all changes counted that were found meanwhile. */
  public long version() {
    return version;
  }

  /**
   * Whether {@link EngineView#takeUnreportedBroken} or {@link EngineView#takeUnsortedPackedRefs} has something to log.
   */
  public boolean hasUnreported() {
    return hasUnreported;
  }

  /**
   * The proof of this list. Another list of this view, asked for in the same words, has the same rows if its proof is
   * equal. May be asked for at any time.
   *
   * @return null if it would be long, or if the list costs less to read than to prove
   */
  public byte[] proof() throws EngineException {
    if (handle == null) {
      return null;
    }
    byte[] proof = handle.call(id -> RefNatives.listProof(id));
    return proof.length == 0 ? null : proof;
  }

  /**
   * The next rows.
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

  /** Gives up the rest. */
  @Override
  public void close() {
    if (handle != null) {
      handle.close();
    }
  }
}

package org.refdb.engine;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/**
 * A thread's memory outside of Java's heap through which a name goes to the library and the answer comes back. Copying
 * there and back costs less than asking for an array's content.
 *
 * <p>The library is given the address, so no other thread may have this.
 */
final class LookupBuffer {
  /** Its length; the library says the same. */
  private static final int BYTES = 1024;

  private static final ThreadLocal<LookupBuffer> OWN = ThreadLocal.withInitial(LookupBuffer::new);

  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BYTES);
  private final byte[] answer = new byte[BYTES];
  private final long address;

  private LookupBuffer() {
    try {
      address = RefNatives.addressOf(buffer);
    } catch (EngineException e) {
      throw new IllegalStateException(e);
    }
  }

  /** This thread's. */
  static LookupBuffer own() {
    return OWN.get();
  }

  /**
   * Looks a ref up.
   *
   * @return the answer, good until this thread asks again; null if name or answer is too long for this
   */
  Unpacker lookup(long view, byte[] name) throws EngineException {
    if (name.length > BYTES) {
      return null;
    }
    buffer.put(0, name);
    int length;
    try {
      length = RefNatives.lookup(view, address, name.length);
    } finally {
      Reference.reachabilityFence(this);
    }
    if (length < 0) {
      return null;
    }
    buffer.get(0, answer, 0, length);
    return new Unpacker(answer, 0, length);
  }
}

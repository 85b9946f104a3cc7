package org.refdb.engine;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/**
 * A buffer of a thread outside of the Java heap, through which a name is passed to the library and the answer comes
 * back. Copying through it costs less than giving the library access to an array.
 *
 * <p>The library receives the address of the buffer, so no other thread may use it.
 */
final class LookupBuffer {
  /** The length of the buffer in bytes; the library has the same constant. */
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

  /** Returns the buffer of this thread. */
  static LookupBuffer own() {
    return OWN.get();
  }

  /**
   * Looks up a ref.
   *
   * @return the answer, which is valid until the next look-up of this thread; null if the name or the answer is too
   *     long for the buffer
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

package org.refdb.engine;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A buffer of a thread outside of the Java heap, through which keys and values are passed to and from the library.
 * Copying through it costs less than giving the library access to an array.
 *
 * <p>The library receives the address of the buffer, so a caller that passes it must call {@link #keepAlive} after the
 * library has returned. No other thread may use the buffer.
 */
final class Exchange {
  /** The length of the buffer in bytes; the library has the same constant. */
  static final int BYTES = 64 << 10;

  private static final ThreadLocal<Exchange> OWN = ThreadLocal.withInitial(Exchange::new);

  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.LITTLE_ENDIAN);

  /** The address of the buffer. */
  final long address;

  private Exchange() {
    try {
      address = CacheNatives.addressOf(buffer);
    } catch (EngineException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns the buffer of this thread. */
  static Exchange own() {
    return OWN.get();
  }

  void write(int at, byte[] bytes) {
    buffer.put(at, bytes);
  }

  byte[] read(int at, int length) {
    byte[] bytes = new byte[length];
    buffer.get(at, bytes);
    return bytes;
  }

  long readLong(int at) {
    return buffer.getLong(at);
  }

  /** Ensures that the buffer is not freed before this call. */
  void keepAlive() {
    Reference.reachabilityFence(this);
  }
}

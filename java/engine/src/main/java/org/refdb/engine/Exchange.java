package org.refdb.engine;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A thread's memory outside of Java's heap through which keys and values go to and from the library. Copying there and
 * back costs less than asking for an array's content.
 *
 * <p>The library is given the address, so a caller that passes it must call {@link #keepAlive} after the library
 * returned. No other thread may have this.
 */
final class Exchange {
  /** Its length; the library says the same. */
  static final int BYTES = 64 << 10;

  private static final ThreadLocal<Exchange> OWN = ThreadLocal.withInitial(Exchange::new);

  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.LITTLE_ENDIAN);

  /** Where it is in memory. */
  final long address;

  private Exchange() {
    try {
      address = CacheNatives.addressOf(buffer);
    } catch (EngineException e) {
      throw new IllegalStateException(e);
    }
  }

  /** This thread's. */
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

  /** Keeps the memory from being freed before this is called. */
  void keepAlive() {
    Reference.reachabilityFence(this);
  }
}

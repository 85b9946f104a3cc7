package org.refdb.engine;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Encodes a request in one array: little-endian integers, and byte strings preceded by their length in four bytes. The
 * file {@code wire.rs} of the library decodes it.
 */
public final class Packer {
  static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private byte[] bytes = new byte[128];
  private int length;

  /** Adds one byte. */
  public Packer u8(int value) {
    room(1);
    bytes[length++] = (byte) value;
    return this;
  }

  /** Adds four bytes. */
  public Packer i32(int value) {
    room(4);
    INT.set(bytes, length, value);
    length += 4;
    return this;
  }

  /** Adds eight bytes. */
  public Packer i64(long value) {
    room(8);
    LONG.set(bytes, length, value);
    length += 8;
    return this;
  }

  /** Adds a byte string. */
  public Packer bytes(byte[] value) {
    i32(value.length);
    return raw(value);
  }

  /** Adds bytes without their length, which the library knows. */
  public Packer raw(byte[] value) {
    room(value.length);
    System.arraycopy(value, 0, bytes, length, value.length);
    length += value.length;
    return this;
  }

  /** Returns the encoded request. */
  public byte[] toByteArray() {
    return Arrays.copyOf(bytes, length);
  }

  private void room(int more) {
    int needed = Math.addExact(length, more);
    if (needed > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(needed, (int) Math.min(2L * bytes.length, Integer.MAX_VALUE - 8)));
    }
  }
}

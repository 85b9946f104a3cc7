package org.refdb.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class PackerTest {
  @Test
  void whatIsPackedIsUnpacked() {
    byte[] large = new byte[1000];
    large[999] = 1;
    byte[] packed = new Packer().u8(200).i32(-1).i64(1L << 40).bytes(large).raw(new byte[] {1, 2}).toByteArray();
    Unpacker unpacker = new Unpacker(packed);
    assertEquals(200, unpacker.u8());
    assertEquals(-1, unpacker.i32());
    assertEquals(1L << 40, unpacker.i64());
    assertArrayEquals(large, unpacker.bytes());
    assertArrayEquals(new byte[] {1, 2}, unpacker.raw(2));
    assertFalse(unpacker.hasMore());
  }

  @Test
  void aLengthBeyondTheEndIsRefused() {
    byte[] packed = new Packer().i32(5).u8(0).toByteArray();
    assertThrows(IllegalStateException.class, () -> new Unpacker(packed).bytes());
    assertThrows(IllegalStateException.class, () -> new Unpacker(new Packer().i32(-5).toByteArray()).bytes());
  }
}

package com.googlesource.gerrit.modules.cache.chroniclemap;

import net.openhft.chronicle.bytes.Bytes;

/** Trusts no length of a file's. */
final class Remaining {
  private Remaining() {}

  static byte[] take(Bytes<?> in, long length) {
    if (length < 0 || length > in.readRemaining()) {
      throw new IllegalStateException("an entry of " + in.readRemaining() + " bytes says that it has " + length + " more");
    }
    byte[] bytes = new byte[(int) length];
    in.read(bytes);
    return bytes;
  }
}

package com.googlesource.gerrit.modules.cache.chroniclemap;

import net.openhft.chronicle.bytes.Bytes;

/** Reads arrays whose lengths a file states, and fails if a length exceeds what remains. */
final class Remaining {
  private Remaining() {}

  static byte[] take(Bytes<?> in, long length) {
    if (length < 0 || length > in.readRemaining()) {
      throw new IllegalStateException(
          "an entry says that " + length + " bytes follow, but " + in.readRemaining() + " remain");
    }
    byte[] bytes = new byte[(int) length];
    in.read(bytes);
    return bytes;
  }
}

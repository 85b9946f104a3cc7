package com.googlesource.gerrit.modules.cache.chroniclemap;

import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.hash.serialization.BytesReader;
import net.openhft.chronicle.hash.serialization.BytesWriter;

/**
 * Marshals a key as its bytes, preceded by their number in four little-endian bytes. ChronicleMap creates the
 * marshaller, whose class the header of a file names, without calling a constructor.
 */
public final class KeyWrapperMarshaller implements BytesReader<KeyWrapper>, BytesWriter<KeyWrapper> {
  @Override
  public KeyWrapper read(@SuppressWarnings("rawtypes") Bytes in, KeyWrapper using) {
    return new KeyWrapper(Remaining.take(in, in.readUnsignedInt()));
  }

  @Override
  public void write(@SuppressWarnings("rawtypes") Bytes out, KeyWrapper key) {
    out.writeUnsignedInt(key.bytes().length);
    out.write(key.bytes());
  }
}

package com.googlesource.gerrit.modules.cache.chroniclemap;

import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.hash.serialization.BytesReader;
import net.openhft.chronicle.hash.serialization.BytesWriter;

/** Writes keys. */
public final class KeyWrapperMarshaller implements BytesReader<KeyWrapper>, BytesWriter<KeyWrapper> {
  final String name;
  final Object cacheSerializer = OneSerializer.INSTANCE;

  KeyWrapperMarshaller(String name) {
    this.name = name;
  }

  @Override
  public KeyWrapper read(@SuppressWarnings("rawtypes") Bytes in, KeyWrapper using) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void write(@SuppressWarnings("rawtypes") Bytes out, KeyWrapper key) {
    out.writeUnsignedInt(key.bytes().length);
    out.write(key.bytes());
  }
}

package com.googlesource.gerrit.modules.cache.chroniclemap;

import java.nio.ByteBuffer;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.hash.serialization.BytesReader;
import net.openhft.chronicle.hash.serialization.BytesWriter;

/** Writes values. */
public final class TimedValueMarshaller implements BytesReader<TimedValue>, BytesWriter<TimedValue> {
  final String name;
  final Object cacheSerializer = OneSerializer.INSTANCE;

  TimedValueMarshaller(String name) {
    this.name = name;
  }

  @Override
  public TimedValue read(@SuppressWarnings("rawtypes") Bytes in, TimedValue using) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void write(@SuppressWarnings("rawtypes") Bytes out, TimedValue value) {
    out.write(ByteBuffer.allocate(12).putLong(value.createdMillis()).putInt(value.bytes().length).array());
    out.write(value.bytes());
  }
}

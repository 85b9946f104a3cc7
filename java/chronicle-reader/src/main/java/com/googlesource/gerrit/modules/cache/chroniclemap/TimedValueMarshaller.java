package com.googlesource.gerrit.modules.cache.chroniclemap;

import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.hash.serialization.BytesReader;
import net.openhft.chronicle.hash.serialization.BytesWriter;

/**
 * When a value was made, eight bytes, and the number of its bytes, four, both big-endian; then its bytes. A file's header
 * makes it, without a constructor.
 */
public final class TimedValueMarshaller implements BytesReader<TimedValue>, BytesWriter<TimedValue> {
  @Override
  public TimedValue read(@SuppressWarnings("rawtypes") Bytes in, TimedValue using) {
    long createdMillis = Long.reverseBytes(in.readLong());
    return new TimedValue(Remaining.take(in, Integer.reverseBytes(in.readInt())), createdMillis);
  }

  @Override
  public void write(@SuppressWarnings("rawtypes") Bytes out, TimedValue value) {
    out.writeLong(Long.reverseBytes(value.createdMillis()));
    out.writeInt(Integer.reverseBytes(value.bytes().length));
    out.write(value.bytes());
  }
}

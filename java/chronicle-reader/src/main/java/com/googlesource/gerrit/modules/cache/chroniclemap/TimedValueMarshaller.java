package com.googlesource.gerrit.modules.cache.chroniclemap;

import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.hash.serialization.BytesReader;
import net.openhft.chronicle.hash.serialization.BytesWriter;

/**
 * Marshals a value as the time of its creation in eight bytes, the number of its bytes in four, both big-endian, and
 * its bytes. ChronicleMap creates the marshaller, whose class the header of a file names, without calling a
 * constructor.
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

package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Decodes an answer of the library, which is encoded like the requests of {@link Packer}. Reading past the end from the
 * present position throws an {@link IllegalStateException}.
 */
public final class Unpacker {
  private final byte[] bytes;
  private final int end;
  private int at;

  /** Creates a decoder for a whole array. */
  public Unpacker(byte[] bytes) {
    this(bytes, 0, bytes.length);
  }

  /** Creates a decoder for the bytes from {@code start} to before {@code end}. */
  public Unpacker(byte[] bytes, int start, int end) {
    this.bytes = bytes;
    this.at = start;
    this.end = end;
  }

  /** Reads one byte, as a number from 0 to 255. */
  public int u8() {
    return bytes[take(1)] & 0xff;
  }

  /** Reads an integer of four bytes. */
  public int i32() {
    return (int) Packer.INT.get(bytes, take(4));
  }

  /** Reads an integer of eight bytes. */
  public long i64() {
    return (long) Packer.LONG.get(bytes, take(8));
  }

  /** Reads the integer in the last eight bytes, regardless of the position. */
  public long lastI64() {
    return (long) Packer.LONG.get(bytes, end - Long.BYTES);
  }

  /** Reads a byte string. */
  public byte[] bytes() {
    return raw(i32());
  }

  /** Reads the next {@code count} bytes. */
  public byte[] raw(int count) {
    int start = take(count);
    return Arrays.copyOfRange(bytes, start, start + count);
  }

  /** Reads a byte string that is text in UTF-8. */
  public String text() {
    int length = i32();
    return new String(bytes, take(length), length, StandardCharsets.UTF_8);
  }

  /** Reads a list of texts that is preceded by their number. */
  List<String> countedTexts() {
    int count = i32();
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      texts.add(text());
    }
    return texts;
  }

  /** Reads the rest of the answer as a list of texts. */
  List<String> texts() {
    List<String> texts = new ArrayList<>();
    while (hasMore()) {
      texts.add(text());
    }
    return texts;
  }

  /** Returns the array that is decoded. The result of {@link #take} is an offset in it. */
  public byte[] array() {
    return bytes;
  }

  /** Returns the offset of the next byte in the array. */
  public int position() {
    return at;
  }

  /** Skips {@code count} bytes. Returns the offset in the array at which they start. */
  public int take(int count) {
    if (count < 0 || count > end - at) {
      throw new IllegalStateException("refdb's jar and library do not fit: an answer ends early");
    }
    int start = at;
    at += count;
    return start;
  }

  /** Returns whether there is more to read. */
  public boolean hasMore() {
    return at < end;
  }
}

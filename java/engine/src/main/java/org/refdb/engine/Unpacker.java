package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Reads an answer of the library: the other end of {@link Packer}. Past the end it throws. */
public final class Unpacker {
  private final byte[] bytes;
  private final int end;
  private int at;

  /** Reads a whole array. */
  public Unpacker(byte[] bytes) {
    this(bytes, 0, bytes.length);
  }

  /** Reads the bytes from {@code start} to before {@code end}. */
  public Unpacker(byte[] bytes, int start, int end) {
    this.bytes = bytes;
    this.at = start;
    this.end = end;
  }

  /** One byte, from 0 to 255. */
  public int u8() {
    return bytes[take(1)] & 0xff;
  }

  /** Four bytes. */
  public int i32() {
    return (int) Packer.INT.get(bytes, take(4));
  }

  /** Eight bytes. */
  public long i64() {
    return (long) Packer.LONG.get(bytes, take(8));
  }

  /** The last eight bytes, wherever this stands. */
  public long lastI64() {
    return (long) Packer.LONG.get(bytes, end - Long.BYTES);
  }

  /** A byte string. */
  public byte[] bytes() {
    return raw(i32());
  }

  /** The next {@code count} bytes. */
  public byte[] raw(int count) {
    int start = take(count);
    return Arrays.copyOfRange(bytes, start, start + count);
  }

  /** A byte string that is text in UTF-8. */
  public String text() {
    int length = i32();
    return new String(bytes, take(length), length, StandardCharsets.UTF_8);
  }

  /** Byte strings of text, with their number before them. */
  List<String> countedTexts() {
    int count = i32();
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      texts.add(text());
    }
    return texts;
  }

  /** All that is left, which is byte strings of text. */
  List<String> texts() {
    List<String> texts = new ArrayList<>();
    while (hasMore()) {
      texts.add(text());
    }
    return texts;
  }

  /** The array that is read. What {@link #take} gives is a place in it. */
  public byte[] array() {
    return bytes;
  }

  /** Where the next byte stands in the array. */
  public int position() {
    return at;
  }

  /** Passes over {@code count} bytes; returns where they start in the array. */
  public int take(int count) {
    if (count < 0 || count > end - at) {
      throw new IllegalStateException("refdb's jar and library do not fit: an answer ends early");
    }
    int start = at;
    at += count;
    return start;
  }

  /** Whether anything is left. */
  public boolean hasMore() {
    return at < end;
  }
}

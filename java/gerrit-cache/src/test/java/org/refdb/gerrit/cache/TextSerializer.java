package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gerrit.server.cache.serialize.CacheSerializer;
import java.util.concurrent.atomic.AtomicInteger;

/** Strings as UTF-8; refuses the string {@value #BROKEN} in both directions. */
enum TextSerializer implements CacheSerializer<String> {
  INSTANCE;

  static final String BROKEN = "broken";

  final AtomicInteger deserialized = new AtomicInteger();

  /** Whether nothing can be read at present. */
  static volatile boolean broken;

  @Override
  public byte[] serialize(String text) {
    if (text.equals(BROKEN)) {
      throw new IllegalArgumentException("cannot be serialised");
    }
    return text.getBytes(UTF_8);
  }

  @Override
  public String deserialize(byte[] bytes) {
    deserialized.incrementAndGet();
    String text = new String(bytes, UTF_8);
    if (broken || text.equals(BROKEN)) {
      throw new IllegalArgumentException("cannot be read");
    }
    return text;
  }
}

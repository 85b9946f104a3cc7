package org.refdb.gerrit.cache;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.function.Supplier;
import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.EventType;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.store.Store;

/**
 * An event of the Java Flight Recorder for a look-up in a disk tier, with the size of the value and the time of each
 * step. The event is off unless a recording enables it. Because a key may be a secret, the event has a hash of it,
 * salted for this process.
 */
@Name(CacheAccess.NAME)
@Label("Look-up in a persistent cache")
@Category("refdb")
@Enabled(false)
@StackTrace(false)
final class CacheAccess extends Event {
  static final String NAME = "org.refdb.CacheAccess";
  private static final int SALT_BYTES = 16;

  /**
   * Tells whether look-ups are recorded. It is a class of its own because the enclosing class cannot be loaded in a
   * runtime without the flight recorder.
   */
  static final class Recorder {
    private static final boolean IS_THERE = ModuleLayer.boot().findModule("jdk.jfr").isPresent();

    private Recorder() {}

    static boolean isOn() {
      return IS_THERE && TYPE.isEnabled();
    }
  }

  private static final EventType TYPE = EventType.getEventType(CacheAccess.class);
  private static final byte[] SALT = new SecureRandom().generateSeed(SALT_BYTES);

  @Label("Cache")
  String cache;

  @Label("Key")
  @Description("A hash of the cache's name and the key; equal only for equal keys of one process")
  long key;

  @Label("Value bytes")
  @Description("0 where the store has no value")
  int bytes;

  @Label("Found")
  boolean found;

  @Label("Making the key, ns")
  long encodeNanos;

  @Label("In the store, ns")
  long storeNanos;

  @Label("Making the value, ns")
  long decodeNanos;

  CacheAccess(String cache) {
    this.cache = cache;
  }

  /** Looks up a value and records the event. */
  <T> T lookUp(Supplier<byte[]> encode, Store store, Cache.Reader<T> reader) {
    begin();
    long start = System.nanoTime();
    byte[] keyBytes = encode.get();
    long encoded = System.nanoTime();
    T value =
        store.get(
            keyBytes,
            (raw, createdMillis) -> {
              bytes = raw.length;
              long read = System.nanoTime();
              T made = reader.read(raw, createdMillis);
              decodeNanos = System.nanoTime() - read;
              return made;
            });
    storeNanos = System.nanoTime() - encoded - decodeNanos;
    encodeNanos = encoded - start;
    found = value != null;
    end();
    key = hash(keyBytes);
    commit();
    return value;
  }

  private long hash(byte[] keyBytes) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(SALT);
      digest.update(cache.getBytes(StandardCharsets.UTF_8));
      digest.update((byte) 0);
      return ByteBuffer.wrap(digest.digest(keyBytes)).getLong();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}

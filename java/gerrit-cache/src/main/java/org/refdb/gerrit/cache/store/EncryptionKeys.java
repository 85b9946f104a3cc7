package org.refdb.gerrit.cache.store;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * What a cache is encrypted with: {@code cache.NAME.encryptionKey}, 32 random bytes in base64, which belongs into
 * secure.config. For a change of keys, {@code cache.NAME.oldEncryptionKey} (any number of them) names those before.
 */
public final class EncryptionKeys {
  private static final int KEY_BYTES = 32;

  /** No encryption. */
  public static final EncryptionKeys NONE = new EncryptionKeys(null, List.of());

  private final byte[] current;
  private final List<byte[]> old;

  private EncryptionKeys(byte[] current, List<byte[]> old) {
    this.current = current;
    this.old = old;
  }

  /**
   * The configured keys.
   *
   * @param cache the cache's name, for messages
   * @param key the value of {@code encryptionKey}, or null
   * @param oldKeys the values of {@code oldEncryptionKey}
   * @throws IllegalArgumentException if one is not 32 bytes in base64; the message names the variable, not the key
   */
  public static EncryptionKeys of(String cache, String key, List<String> oldKeys) {
    List<byte[]> old = new ArrayList<>();
    for (String oldKey : oldKeys) {
      old.add(decode(cache, "oldEncryptionKey", oldKey));
    }
    return key == null ? NONE : new EncryptionKeys(decode(cache, "encryptionKey", key), old);
  }

  private static byte[] decode(String cache, String variable, String text) {
    byte[] key;
    try {
      key = Base64.getDecoder().decode(text.strip());
    } catch (IllegalArgumentException e) {
      key = new byte[0]; // the decoder's message quotes from the key
    }
    if (key.length != KEY_BYTES) {
      throw new IllegalArgumentException(
          "cache." + cache + "." + variable + " is not " + KEY_BYTES
              + " bytes in base64; make a key with: openssl rand -base64 " + KEY_BYTES);
    }
    return key;
  }

  /** The key, or null for none. */
  public byte[] current() {
    return current;
  }

  /** The keys before it. */
  public List<byte[]> old() {
    return old;
  }
}

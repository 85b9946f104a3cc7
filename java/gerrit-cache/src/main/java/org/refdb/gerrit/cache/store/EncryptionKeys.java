package org.refdb.gerrit.cache.store;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * The keys with which a cache is encrypted: {@code cache.NAME.encryptionKey}, 32 random bytes in base64, which belongs
 * in secure.config. After a change of keys, {@code cache.NAME.oldEncryptionKey}, which may be repeated, has the
 * previous ones.
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
   * Parses the configured keys.
   *
   * @param cache the name of the cache, for messages
   * @param key the value of {@code encryptionKey}, or null for no encryption
   * @param oldKeys the values of {@code oldEncryptionKey}; they are checked, but not used, if {@code key} is null
   * @throws IllegalArgumentException if a key is not 32 bytes in base64; the message names the variable, not the key
   */
  public static EncryptionKeys of(String cache, String key, List<String> oldKeys) {
    List<byte[]> old = new ArrayList<>();
    for (String oldKey : oldKeys) {
      old.add(decode("cache." + cache + ".oldEncryptionKey", oldKey));
    }
    return key == null ? NONE : new EncryptionKeys(decode("cache." + cache + ".encryptionKey", key), old);
  }

  /**
   * Returns the key that is the value of a setting.
   *
   * @throws IllegalArgumentException if it is not 32 bytes in base64; the message names the setting, not the key
   */
  public static byte[] decode(String setting, String text) {
    byte[] key;
    try {
      key = Base64.getDecoder().decode(text.strip());
    } catch (IllegalArgumentException e) {
      key = new byte[0]; // the decoder's message quotes from the key
    }
    if (key.length != KEY_BYTES) {
      throw new IllegalArgumentException(
          setting + " is not " + KEY_BYTES + " bytes in base64; make a key with: openssl rand -base64 " + KEY_BYTES);
    }
    return key;
  }

  /** Returns the current key, or null if the cache is not encrypted. */
  public byte[] current() {
    return current;
  }

  /** Returns the previous keys. */
  public List<byte[]> old() {
    return old;
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Encodes the entries that the server of the shared cache stores, and decodes one only if it was stored as it is under
 * the name that was asked for and, where there are keys, by a Gerrit that has one of them.
 *
 * <pre>
 * plain    0x01  body  CRC-32C of the name and all before (4)
 * sealed   0x02  number of the key (4)  nonce (12)  AES-256-GCM of the body, with its tag (16)
 * body     time of creation (8)  length of the key (4)  key  value
 * </pre>
 *
 * <p>The name is authenticated with a sealed entry, so an entry that was moved is no entry. Each name has an AES key of
 * its own, derived from the key of the settings, and so few entries are sealed with that AES key that a random nonce is
 * most unlikely to repeat.
 */
final class EntryFormat {
  /** The version of this format, which is part of the names. */
  static final int VERSION = 1;

  private static final byte PLAIN = 1;
  private static final byte SEALED = 2;
  private static final int BODY_HEADER = Long.BYTES + Integer.BYTES;
  private static final int CHECKSUM = Integer.BYTES;
  private static final int NUMBER = Integer.BYTES;
  private static final int NONCE = 12;
  private static final int TAG = 16;

  private final List<SealingKey> keys = new ArrayList<>();
  private final SecureRandom random = new SecureRandom();

  /** A key of the settings, and the number by which an entry says that it was sealed with it. */
  private record SealingKey(int number, byte[] secret) {
    static SealingKey of(byte[] secret) {
      byte[] digest = EntryKeys.sha256().digest(hmac(secret, "refdb: the number of a key".getBytes(US_ASCII)));
      return new SealingKey(ByteBuffer.wrap(digest).getInt(), secret);
    }

    Cipher cipher(int mode, byte[] name, byte[] header, byte[] nonce) throws GeneralSecurityException {
      Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
      SecretKeySpec derived = new SecretKeySpec(hmac(secret, name), "AES");
      cipher.init(mode, derived, new GCMParameterSpec(TAG * Byte.SIZE, nonce));
      cipher.updateAAD(name);
      cipher.updateAAD(header);
      return cipher;
    }

    private static byte[] hmac(byte[] secret, byte[] text) {
      try {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        return mac.doFinal(text);
      } catch (GeneralSecurityException e) {
        throw new IllegalStateException("every Java has HMAC-SHA-256", e);
      }
    }
  }

  /** A decoded value, and its key. */
  record Value(byte[] key, byte[] bytes, long createdMillis) {}

  /** Thrown for an entry that cannot be shown to be what was stored under its name. */
  static final class BadEntryException extends Exception {
    private static final long serialVersionUID = 1L;

    /** Whether the entry was sealed with a key that this node does not have, as during a rotation of keys. */
    final transient boolean isOfUnknownKey;

    BadEntryException(String message, boolean isOfUnknownKey) {
      super(message);
      this.isOfUnknownKey = isOfUnknownKey;
    }
  }

  /** Creates a format. Entries are sealed with the first key, and opened with any; without keys they are plain. */
  EntryFormat(List<byte[]> keys) {
    keys.forEach(key -> this.keys.add(SealingKey.of(key)));
  }

  /** Returns how many bytes a sealed entry takes; a plain one takes fewer. */
  static long size(int keyBytes, int valueBytes) {
    return 1L + NUMBER + NONCE + BODY_HEADER + keyBytes + valueBytes + TAG;
  }

  byte[] encode(byte[] name, byte[] key, byte[] value, long createdMillis) {
    ByteBuffer body = ByteBuffer.allocate(BODY_HEADER + key.length + value.length);
    body.putLong(createdMillis).putInt(key.length).put(key).put(value).flip();
    return keys.isEmpty() ? plain(name, body) : sealed(name, body);
  }

  private static byte[] plain(byte[] name, ByteBuffer body) {
    ByteBuffer entry = ByteBuffer.allocate(1 + body.remaining() + CHECKSUM).put(PLAIN).put(body);
    return entry.putInt(checksum(name, entry.array(), entry.position())).array();
  }

  private static int checksum(byte[] name, byte[] entry, int length) {
    CRC32C sum = new CRC32C();
    sum.update(name);
    sum.update(entry, 0, length);
    return (int) sum.getValue();
  }

  private byte[] sealed(byte[] name, ByteBuffer body) {
    byte[] nonce = new byte[NONCE];
    random.nextBytes(nonce);
    byte[] header = ByteBuffer.allocate(1 + NUMBER).put(SEALED).putInt(keys.getFirst().number).array();
    ByteBuffer entry = ByteBuffer.allocate(header.length + NONCE + body.remaining() + TAG).put(header).put(nonce);
    try {
      keys.getFirst().cipher(Cipher.ENCRYPT_MODE, name, header, nonce).doFinal(body, entry);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has AES-GCM", e);
    }
    return entry.array();
  }

  /**
   * Decodes what the server returned for a name.
   *
   * @throws BadEntryException if it is not an entry for this key under this name, was changed, or is sealed with a key
   *     that this node does not have
   */
  Value decode(byte[] name, byte[] key, byte[] entry) throws BadEntryException {
    Value value = decode(name, entry);
    require(Arrays.equals(value.key, key), "for another key");
    return value;
  }

  /**
   * Decodes what the server returned for a name, whatever its key is. The caller must check that the key has this name.
   *
   * @throws BadEntryException if it is not an entry under this name, was changed, or is sealed with a key that this
   *     node does not have
   */
  Value decode(byte[] name, byte[] entry) throws BadEntryException {
    ByteBuffer body = keys.isEmpty() ? openPlain(name, entry) : unseal(name, entry);
    require(body.remaining() >= BODY_HEADER, "too short");
    long created = body.getLong();
    int keyLength = body.getInt();
    require(keyLength >= 0 && body.remaining() >= keyLength, "with a bad length");
    byte[] key = new byte[keyLength];
    body.get(key);
    byte[] value = new byte[body.remaining()];
    body.get(value);
    return new Value(key, value, created);
  }

  private static ByteBuffer openPlain(byte[] name, byte[] entry) throws BadEntryException {
    int length = entry.length - CHECKSUM;
    require(length >= 1 && entry[0] == PLAIN, "of another kind");
    require(ByteBuffer.wrap(entry).getInt(length) == checksum(name, entry, length), "damaged");
    return ByteBuffer.wrap(entry, 1, length - 1);
  }

  /** Decrypts a sealed entry, and refuses a plain one. */
  private ByteBuffer unseal(byte[] name, byte[] entry) throws BadEntryException {
    require(entry.length >= 1 + NUMBER + NONCE + TAG && entry[0] == SEALED, "of another kind");
    int number = ByteBuffer.wrap(entry).getInt(1);
    byte[] header = Arrays.copyOf(entry, 1 + NUMBER);
    byte[] nonce = Arrays.copyOfRange(entry, header.length, header.length + NONCE);
    int start = header.length + NONCE;
    boolean isKnown = false;
    for (SealingKey key : keys) {
      if (key.number == number) {
        isKnown = true;
        try {
          Cipher cipher = key.cipher(Cipher.DECRYPT_MODE, name, header, nonce);
          return ByteBuffer.wrap(cipher.doFinal(entry, start, entry.length - start));
        } catch (GeneralSecurityException e) {
          // It was not sealed with this key for this name.
        }
      }
    }
    throw new BadEntryException(isKnown ? "forged or moved" : "sealed with another key", !isKnown);
  }

  private static void require(boolean holds, String what) throws BadEntryException {
    if (!holds) {
      throw new BadEntryException(what, false);
    }
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.List;

/**
 * Names the entries of one cache on the server: {@code refdb:NAMESPACE:CACHE:HASH}. The hash is of everything on which
 * the meaning of the bytes depends, so that two nodes for which they mean different things do not share them.
 */
final class EntryKeys {
  private static final int HASH_BYTES = 24;

  /** The characters of a hash. */
  private static final int HASH_TEXT = HASH_BYTES / 3 * 4;

  /** Stands in the name of a generation where that of an entry has the cache's. No cache of Gerrit is called so. */
  private static final String GENERATION = "generation";

  private final byte[] prefix;
  private final MessageDigest context;

  /**
   * Creates the names of one cache.
   *
   * @param context what must be equal for two nodes to share: the versions of the cache, of Gerrit and of our format,
   *     the serialisers, and the settings that values depend on
   */
  EntryKeys(String namespace, String cache, List<String> context) {
    this.prefix = prefix(namespace, cache).getBytes(UTF_8);
    this.context = sha256();
    this.context.update(framed(prefix));
    for (String part : context) {
      this.context.update(framed(part.getBytes(UTF_8)));
    }
  }

  /** Returns what the names of a site begin with, to which an ACL of the server can limit the site. */
  static String prefix(String namespace) {
    return "refdb:" + namespace + ":";
  }

  private static String prefix(String namespace, String cache) {
    return prefix(namespace) + cache + ":";
  }

  /** Returns the name under which {@link Generations} stores the generation of a cache, or with "" of all caches. */
  static byte[] generation(String namespace, String cache) {
    return (prefix(namespace, GENERATION) + cache).getBytes(UTF_8);
  }

  /** Returns the cache to whose entries a name belongs; null if it does not look like one of an entry of this site. */
  static String cacheOf(String namespace, byte[] name) {
    String text = new String(name, UTF_8);
    int hash = text.length() - HASH_TEXT;
    String before = prefix(namespace);
    boolean isEntry = hash > before.length() + 1 && text.startsWith(before) && text.charAt(hash - 1) == ':';
    String cache = isEntry ? text.substring(before.length(), hash - 1) : GENERATION;
    return cache.equals(GENERATION) ? null : cache; // a cache's name may be as long as a hash
  }

  /** Returns the name of an entry in a {@linkplain Generations generation}. */
  byte[] of(String generation, byte[] key) {
    MessageDigest digest = copy();
    digest.update(framed(generation.getBytes(UTF_8)));
    digest.update(key);
    byte[] hash = ByteBuffer.allocate(HASH_BYTES).put(digest.digest(), 0, HASH_BYTES).array();
    byte[] text = Base64.getUrlEncoder().withoutPadding().encode(hash);
    return ByteBuffer.allocate(prefix.length + text.length).put(prefix).put(text).array();
  }

  /** Returns a part with its length before it, so that no two lists of parts have the same bytes. */
  private static byte[] framed(byte[] part) {
    return ByteBuffer.allocate(Integer.BYTES + part.length).putInt(part.length).put(part).array();
  }

  private MessageDigest copy() {
    try {
      return (MessageDigest) context.clone();
    } catch (CloneNotSupportedException e) {
      throw new IllegalStateException("every Java can clone its SHA-256", e);
    }
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}

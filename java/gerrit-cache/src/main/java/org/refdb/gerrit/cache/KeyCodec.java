package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;

/**
 * Encodes keys for the disk: strings in UTF-8, and others with the serialiser of the cache. Because the H2 tables of
 * Gerrit follow the same rule (with a VARCHAR column for strings), keys can be imported from them without knowing the
 * cache.
 */
interface KeyCodec<K> {
  byte[] encode(K key);

  K decode(byte[] bytes);

  /** Returns whether the keys of a cache are strings. */
  static boolean isText(PersistentCacheDef<?, ?> def) {
    return def.keyType().getRawType() == String.class;
  }

  static <K> KeyCodec<K> of(PersistentCacheDef<K, ?> def) {
    return isText(def) ? new Text<>() : new Serialized<>(def.keySerializer());
  }

  /** Encodes keys that are strings. */
  final class Text<K> implements KeyCodec<K> {
    @Override
    public byte[] encode(K key) {
      return ((String) key).getBytes(UTF_8);
    }

    @Override
    @SuppressWarnings("unchecked")
    public K decode(byte[] bytes) {
      return (K) new String(bytes, UTF_8);
    }
  }

  /** Encodes all other keys. */
  record Serialized<K>(CacheSerializer<K> serializer) implements KeyCodec<K> {
    @Override
    public byte[] encode(K key) {
      return serializer.serialize(key);
    }

    @Override
    public K decode(byte[] bytes) {
      return serializer.deserialize(bytes);
    }
  }
}

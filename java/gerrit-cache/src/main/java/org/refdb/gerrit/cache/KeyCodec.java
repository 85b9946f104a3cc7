package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;

/**
 * A key's bytes on disk: UTF-8 for strings, else what the cache's serializer makes of it. The same rule as in Gerrit's
 * H2 tables (a VARCHAR column for strings). So keys can be taken over from there without knowing the cache.
 */
interface KeyCodec<K> {
  byte[] encode(K key);

  K decode(byte[] bytes);

  /** Whether a cache's keys are strings. */
  static boolean isText(PersistentCacheDef<?, ?> def) {
    return def.keyType().getRawType() == String.class;
  }

  static <K> KeyCodec<K> of(PersistentCacheDef<K, ?> def) {
    return isText(def) ? new Text<>() : new Serialized<>(def.keySerializer());
  }

  /** Of keys that are strings. */
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

  /** Of all others. */
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

package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;

/**
 * A key's bytes on disk: UTF-8 for strings, else what the cache's serializer makes of it. The same rule as in Gerrit's
 * H2 tables (a VARCHAR column for strings), so that keys can be taken over from there without knowing the cache.
 */
@FunctionalInterface
interface KeyCodec<K> {
  byte[] encode(K key);

  /** Whether a cache's keys are strings. */
  static boolean isText(PersistentCacheDef<?, ?> def) {
    return def.keyType().getRawType() == String.class;
  }

  static <K> KeyCodec<K> of(PersistentCacheDef<K, ?> def) {
    if (isText(def)) {
      return key -> ((String) key).getBytes(UTF_8);
    }
    CacheSerializer<K> serializer = def.keySerializer();
    return serializer::serialize;
  }
}

package org.refdb.gerrit.cache;

import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.gerrit.server.util.time.TimeUtil;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.refdb.engine.Planted;

/** What caches do wrong under those planted faults that take more than a line. No released jar has this class. */
final class PlantedCaches {
  private static final int ENTRY_BYTES_MAX = 4096;
  private static final Map<String, CacheSerializer<?>> SERIALIZERS = new ConcurrentHashMap<>();
  private static final Map<Object, Long> STAMPS = new ConcurrentHashMap<>();

  private PlantedCaches() {}

  @SuppressWarnings("unchecked")
  static <V> CacheSerializer<V> serializer(PersistentCacheDef<?, V> def) {
    return Planted.is("caches-18")
        ? (CacheSerializer<V>) SERIALIZERS.computeIfAbsent(def.name(), any -> def.valueSerializer())
        : def.valueSerializer();
  }

  /** Returns whether a planted fault keeps an entry from being stored. Throws if one takes the entry for too large. */
  static boolean refuses(StoreHandle stores, Object key, int entryBytes) {
    if (Planted.is("caches-10") && entryBytes > ENTRY_BYTES_MAX) {
      throw new IllegalStateException("larger than the entries that this cache was made for");
    }
    if (Planted.is("caches-12")) {
      STAMPS.put(key, TimeUtil.nowMs());
    }
    return Planted.is("caches-05") && stores.get().stats().diskBytes() > stores.spec().limitBytes() / 2;
  }
}

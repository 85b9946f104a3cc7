package org.refdb.gerrit.cache;

import com.google.common.cache.CacheLoader;
import com.google.common.cache.Weigher;
import com.google.gerrit.server.cache.CacheDef;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.inject.TypeLiteral;
import com.google.inject.util.Types;
import java.time.Duration;

/** The definition of the memory tier: that of the cache, with each value in a {@link Holder}. */
final class HolderDef<K, V> implements CacheDef<K, Holder<V>> {
  private final PersistentCacheDef<K, V> source;

  HolderDef(PersistentCacheDef<K, V> source) {
    this.source = source;
  }

  @Override
  public String name() {
    return source.name();
  }

  @Override
  public String configKey() {
    return source.configKey();
  }

  @Override
  public TypeLiteral<K> keyType() {
    return source.keyType();
  }

  @Override
  @SuppressWarnings("unchecked")
  public TypeLiteral<Holder<V>> valueType() {
    return (TypeLiteral<Holder<V>>)
        TypeLiteral.get(Types.newParameterizedType(Holder.class, source.valueType().getType()));
  }

  @Override
  public long maximumWeight() {
    return source.maximumWeight();
  }

  @Override
  public Duration expireAfterWrite() {
    return source.expireAfterWrite();
  }

  @Override
  public Duration expireFromMemoryAfterAccess() {
    return source.expireFromMemoryAfterAccess();
  }

  @Override
  public Duration refreshAfterWrite() {
    return source.refreshAfterWrite();
  }

  @Override
  public Weigher<K, Holder<V>> weigher() {
    Weigher<K, V> weigher = source.weigher();
    return weigher == null ? null : (key, holder) -> weigher.weigh(key, holder.value);
  }

  /** Returns null, because the cache passes its own loader, which reads the disk first, to the memory tier. */
  @Override
  public CacheLoader<K, Holder<V>> loader() {
    return null;
  }
}

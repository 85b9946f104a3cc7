package org.refdb.gerrit.cache;

import com.google.common.cache.CacheLoader;
import com.google.common.cache.Weigher;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.inject.TypeLiteral;
import java.time.Duration;

/** The definition of a cache of strings, as a plugin that is loaded later hands it to the factory. */
record TestDef(
    String name,
    int version,
    long maximumWeight,
    long diskLimit,
    Duration expireAfterWrite,
    Duration refreshAfterWrite,
    Weigher<String, String> weigher,
    CacheSerializer<String> valueSerializer)
    implements PersistentCacheDef<String, String> {

  static TestDef named(String name) {
    return new TestDef(name, 1, 1024, 8 << 20, null, null, null, TextSerializer.INSTANCE);
  }

  TestDef withVersion(int newVersion) {
    return new TestDef(
        name, newVersion, maximumWeight, diskLimit, expireAfterWrite, refreshAfterWrite, weigher, valueSerializer);
  }

  TestDef withWeight(long weight) {
    return new TestDef(
        name, version, weight, diskLimit, expireAfterWrite, refreshAfterWrite, weigher, valueSerializer);
  }

  TestDef withDiskLimit(long limit) {
    return new TestDef(
        name, version, maximumWeight, limit, expireAfterWrite, refreshAfterWrite, weigher, valueSerializer);
  }

  TestDef withAges(Duration expire, Duration refresh) {
    return new TestDef(name, version, maximumWeight, diskLimit, expire, refresh, weigher, valueSerializer);
  }

  TestDef withWeigher(Weigher<String, String> newWeigher) {
    return new TestDef(
        name, version, maximumWeight, diskLimit, expireAfterWrite, refreshAfterWrite, newWeigher, valueSerializer);
  }

  TestDef withSerializer(CacheSerializer<String> serializer) {
    return new TestDef(
        name, version, maximumWeight, diskLimit, expireAfterWrite, refreshAfterWrite, weigher, serializer);
  }

  @Override
  public CacheSerializer<String> keySerializer() {
    return TextSerializer.INSTANCE;
  }

  @Override
  public String configKey() {
    return name;
  }

  @Override
  public TypeLiteral<String> keyType() {
    return TypeLiteral.get(String.class);
  }

  @Override
  public TypeLiteral<String> valueType() {
    return TypeLiteral.get(String.class);
  }

  @Override
  public Duration expireFromMemoryAfterAccess() {
    return null;
  }

  @Override
  public CacheLoader<String, String> loader() {
    return null;
  }
}

package org.refdb.gerrit.cache.store;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import org.refdb.engine.Cache;

/** A store that keeps nothing, for a cache that has no files or whose files cannot be opened. */
public enum NoStore implements Store {
  /** The only instance. */
  INSTANCE;

  private static final Stats EMPTY = new Stats(0, 0, 0, 0, 0);

  @Override
  public <T> T get(byte[] key, Cache.Reader<T> reader) {
    return null;
  }

  @Override
  public boolean put(byte[] key, byte[] value, long createdMillis, boolean durable) {
    return false;
  }

  @Override
  public Placed place(byte[] key, byte[] value, long createdMillis, boolean durable) {
    return Placed.REFUSED;
  }

  @Override
  public void settle() {}

  @Override
  public void invalidate(byte[] key, boolean durable) {}

  @Override
  public void clear(boolean durable) {}

  @Override
  public Stats stats() {
    return EMPTY;
  }

  @Override
  public Upkeep upkeep() {
    return NoUpkeep.INSTANCE;
  }

  @Override
  public void close() {}

  private enum NoUpkeep implements Upkeep {
    /** The only instance. */
    INSTANCE;

    @Override
    public Map<String, Long> figures() {
      return Map.of();
    }

    @Override
    public Cache.Verified verify() {
      return new Cache.Verified(0, 0);
    }

    @Override
    public long compact() {
      return 0;
    }

    @Override
    public void forEach(Cache.Visitor visitor) {}

    @Override
    public void forEachWithValue(Cache.Visitor visitor) {}

    @Override
    public long exportTo(OutputStream to) {
      throw inMemoryOnly();
    }

    @Override
    public Cache.Imported importFrom(InputStream from) {
      throw inMemoryOnly();
    }

    private static IllegalStateException inMemoryOnly() {
      return new IllegalStateException("the cache has no files: its limit on disk is 0, or error_log says why");
    }
  }
}

package org.refdb.gerrit.cache.store;

import java.util.function.BooleanSupplier;
import org.refdb.engine.Cache;

/** A store that takes no change while a switch says so, as an offline reindex may be told. */
public final class ReadOnlyStore implements Store {
  private final Store store;
  private final BooleanSupplier readOnly;

  /** The switch is asked at each change. */
  public ReadOnlyStore(Store store, BooleanSupplier readOnly) {
    this.store = store;
    this.readOnly = readOnly;
  }

  @Override
  public <T> T get(byte[] key, Cache.Reader<T> reader) {
    return store.get(key, reader);
  }

  @Override
  public boolean put(byte[] key, byte[] value, long createdMillis, boolean durable) {
    return !readOnly.getAsBoolean() && store.put(key, value, createdMillis, durable);
  }

  @Override
  public Placed place(byte[] key, byte[] value, long createdMillis, boolean durable) {
    return readOnly.getAsBoolean() ? Placed.REFUSED : store.place(key, value, createdMillis, durable);
  }

  @Override
  public void settle() {
    if (!readOnly.getAsBoolean()) {
      store.settle();
    }
  }

  @Override
  public void invalidate(byte[] key, boolean durable) {
    if (!readOnly.getAsBoolean()) {
      store.invalidate(key, durable);
    }
  }

  @Override
  public void clear(boolean durable) {
    if (!readOnly.getAsBoolean()) {
      store.clear(durable);
    }
  }

  @Override
  public Stats stats() {
    return store.stats();
  }

  @Override
  public Upkeep upkeep() {
    return store.upkeep();
  }

  @Override
  public void close() {
    store.close();
  }
}

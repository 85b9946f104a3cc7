package org.refdb.gerrit.cache.store;

import org.refdb.engine.Cache;

/**
 * A store that forwards reads, statistics, upkeep and closing to another store, and leaves changes to its subclasses.
 */
public abstract class ForwardingStore implements Store {
  /** The other store. */
  protected final Store store;

  protected ForwardingStore(Store store) {
    this.store = store;
  }

  @Override
  public <T> T get(byte[] key, Cache.Reader<T> reader) {
    return store.get(key, reader);
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

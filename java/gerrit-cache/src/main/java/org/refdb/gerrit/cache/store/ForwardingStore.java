package org.refdb.gerrit.cache.store;

import org.refdb.engine.Cache;

/** A store before another one. What only reads, and the end, is the other's; the changes are for the subclass to judge. */
public abstract class ForwardingStore implements Store {
  /** The other one. */
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

package org.refdb.gerrit.cache;

import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/** The reference of one cache to a store, which is opened when it is first needed, and again after it was released. */
final class StoreHandle {
  private final Stores stores;
  private final StoreOpener.Spec spec;
  private final Runnable whenWritable;
  private volatile Store store;

  /**
   * Creates a reference.
   *
   * @param whenWritable what is done each time that this reference gets a store that can be written
   */
  StoreHandle(Stores stores, StoreOpener.Spec spec, Runnable whenWritable) {
    this.stores = stores;
    this.spec = spec;
    this.whenWritable = whenWritable;
  }

  /** Notes that values may be written to the store from now on. */
  void isWritable() {
    whenWritable.run();
  }

  StoreOpener.Spec spec() {
    return spec;
  }

  /** Returns the store, or one that keeps nothing if the cache has no files or they cannot be opened. */
  Store get() {
    Store open = store;
    return open != null ? open : open();
  }

  /** Returns the store if it is open, else null, for work that must not open one again. */
  Store held() {
    return store;
  }

  private synchronized Store open() {
    if (store == null) {
      store = stores.acquire(this);
    }
    return store;
  }

  /** Releases the store, which is closed when its last holder has released it. */
  synchronized void release() {
    if (store != null) {
      store = null;
      stores.release(this);
    }
  }
}

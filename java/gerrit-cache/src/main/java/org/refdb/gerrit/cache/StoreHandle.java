package org.refdb.gerrit.cache;

import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/** One cache's hold on a store. Opens it when it is first needed, also after it was released. */
final class StoreHandle {
  private final Stores stores;
  private final StoreOpener.Spec spec;
  private volatile Store store;

  StoreHandle(Stores stores, StoreOpener.Spec spec) {
    this.stores = stores;
    this.spec = spec;
  }

  StoreOpener.Spec spec() {
    return spec;
  }

  /** The store; one that keeps nothing if it cannot be opened. */
  Store get() {
    Store open = store;
    return open != null ? open : open();
  }

  /** The store if it is held now, else null: for work that must not open one again. */
  Store held() {
    return store;
  }

  private synchronized Store open() {
    if (store == null) {
      store = stores.acquire(this);
    }
    return store;
  }

  /** Lets go of the store, which is closed once nobody holds it. */
  synchronized void release() {
    if (store != null) {
      store = null;
      stores.release(this);
    }
  }
}

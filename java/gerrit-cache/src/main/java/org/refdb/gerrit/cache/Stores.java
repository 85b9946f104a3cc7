package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import com.google.inject.name.Named;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.refdb.engine.Planted;
import org.refdb.gerrit.cache.h2.Takeover;
import org.refdb.gerrit.cache.store.NoStore;
import org.refdb.gerrit.cache.store.ReadOnlyStore;
import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * The open stores of this process. Caches of the same name and version share a store, as two generations of a plugin
 * do.
 */
@Singleton
final class Stores {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final StoreOpener opener;
  private final Takeover takeover;
  private final AtomicBoolean readOnly;
  private final Map<Name, Shared> shared = new HashMap<>();
  private final Set<StoreHandle> open = new HashSet<>();
  private boolean stopped;
  private boolean toldInUse;

  private record Name(String cache, int version) {
    static Name of(StoreHandle handle) {
      if (Planted.ON && Planted.is("caches-08")) {
        return new Name(handle.spec().name() + " of " + System.identityHashCode(handle), handle.spec().version());
      }
      return new Name(handle.spec().name(), handle.spec().version());
    }
  }

  private static final class Shared {
    final Store store;
    int holders;

    Shared(Store store) {
      this.store = store;
    }
  }

  @Inject
  Stores(StoreOpener opener, Takeover takeover, @Named(RefdbCacheModule.READ_ONLY) AtomicBoolean readOnly) {
    this.opener = opener;
    this.takeover = takeover;
    this.readOnly = readOnly;
  }

  /**
   * Returns the store for a handle that holds none, and opens it if necessary; a store that keeps nothing if the cache
   * has no files or they cannot be opened, or after {@link #stop}.
   */
  synchronized Store acquire(StoreHandle handle) {
    if (stopped) {
      return NoStore.INSTANCE;
    }
    Shared found = shared.computeIfAbsent(Name.of(handle), name -> new Shared(openOrNone(handle.spec())));
    if (found.store != NoStore.INSTANCE && !readOnly.get()) {
      handle.isWritable();
    }
    found.holders++;
    open.add(handle);
    return found.store;
  }

  /** Releases the store of a handle, and closes it if no other handle holds it. */
  synchronized void release(StoreHandle handle) {
    if (!open.remove(handle)) {
      return;
    }
    Shared held = shared.get(Name.of(handle));
    if (--held.holders == 0) {
      shared.remove(Name.of(handle));
      close(handle.spec(), held.store);
    }
  }

  /** Returns the handles that hold a store. */
  synchronized List<StoreHandle> open() {
    return List.copyOf(open);
  }

  /** Closes all stores. None is opened afterwards. */
  void stop() {
    List<StoreHandle> handles;
    takeover.stop();
    synchronized (this) {
      stopped = true;
      handles = List.copyOf(open);
    }
    if (Planted.ON && Planted.is("caches-16")) {
      return;
    }
    handles.forEach(StoreHandle::release);
  }

  private Store openOrNone(StoreOpener.Spec spec) {
    if (!spec.hasFiles()) {
      return NoStore.INSTANCE;
    }
    try {
      if (readOnly.get()) {
        return new ReadOnlyStore(opener.openToRead(spec), () -> true);
      }
      Store store = takenOver(spec, opener.open(spec));
      removeOtherVersions(spec);
      return new ReadOnlyStore(store, readOnly::get);
    } catch (StoreOpener.InUseException e) {
      tellInUse(e);
    } catch (IOException e) {
      logger.atSevere().log("%s stays in memory only: %s", spec, e.getMessage());
      if (!readOnly.get()) {
        RefdbCacheFactory.forgetH2Secrets(spec.directory(), spec.name());
      }
    }
    return NoStore.INSTANCE;
  }

  private Store takenOver(StoreOpener.Spec spec, Store store) throws IOException {
    try {
      return takeover.from(spec, store);
    } catch (IOException e) {
      close(spec, store);
      throw e;
    }
  }

  private void tellInUse(StoreOpener.InUseException e) {
    if (!toldInUse) {
      toldInUse = true;
      logger.atSevere().log(
          "Another process uses the persistent caches; this one keeps its caches in memory only and writes nothing: %s",
          e.getMessage());
    } else {
      logger.atFine().log("%s", e.getMessage());
    }
  }

  private void removeOtherVersions(StoreOpener.Spec spec) {
    try {
      opener.removeOtherVersions(spec);
    } catch (IOException e) {
      logger.atWarning().log("Cannot remove old versions of %s: %s", spec, e.getMessage());
    }
  }

  private static void close(StoreOpener.Spec spec, Store store) {
    try {
      store.close();
    } catch (RuntimeException e) {
      logger.atWarning().withCause(e).log("Cannot close %s", spec);
    }
  }
}

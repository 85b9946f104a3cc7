package org.refdb.gerrit.cache.h2;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import org.refdb.gerrit.cache.store.ForwardingStore;
import org.refdb.gerrit.cache.store.Store;

/**
 * A store into which older entries are being imported while it is in use. A change that its users make meanwhile
 * wins over imported entries, in any order and across restarts. An invalidated key does not come back.
 */
final class ImportingStore extends ForwardingStore {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final H2Import state;
  private volatile boolean importing = true;

  ImportingStore(Store store, H2Import state) {
    super(store);
    this.state = state;
  }

  /** Whether older entries are still wanted. */
  boolean isImporting() {
    return importing;
  }

  /** Nothing more is imported, also not after a restart. */
  synchronized void endImport() {
    importing = false;
    try {
      state.finish();
    } catch (IOException e) {
      logger.atWarning().log("Cannot set an H2 file aside that was imported: %s", e.getMessage());
    }
  }

  /** Takes an older entry, unless its key was changed since. False if the store has no room for it just now. */
  synchronized boolean importEntry(byte[] key, byte[] value, long createdMillis) {
    return !state.wants(key) || store.put(key, value, createdMillis, false);
  }

  private void note(byte[] key) {
    try {
      state.note(key);
    } catch (IOException e) {
      logger.atWarning().log("No more is imported from H2, the changes since cannot be noted: %s", e.getMessage());
      endImport();
    }
  }

  @Override
  public boolean put(byte[] key, byte[] value, long createdMillis, boolean durable) {
    if (!importing) {
      return store.put(key, value, createdMillis, durable);
    }
    synchronized (this) {
      note(key);
      return store.put(key, value, createdMillis, durable);
    }
  }

  @Override
  public Placed place(byte[] key, byte[] value, long createdMillis, boolean durable) {
    if (!importing) {
      return store.place(key, value, createdMillis, durable);
    }
    synchronized (this) {
      note(key);
      return store.place(key, value, createdMillis, durable);
    }
  }

  @Override
  public void settle() {
    store.settle();
  }

  @Override
  public void invalidate(byte[] key, boolean durable) {
    if (!importing) {
      store.invalidate(key, durable);
      return;
    }
    synchronized (this) {
      note(key);
      store.invalidate(key, durable);
    }
  }

  @Override
  public void clear(boolean durable) {
    if (importing) {
      endImport();
    }
    store.clear(durable);
  }

  @Override
  public void close() {
    suspend();
    super.close();
  }

  private synchronized void suspend() {
    importing = false;
    try {
      state.suspend();
    } catch (IOException e) {
      logger.atWarning().log("The rest of an import from H2 may be lost: %s", e.getMessage());
    }
  }
}

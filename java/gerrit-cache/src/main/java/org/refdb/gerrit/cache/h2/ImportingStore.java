package org.refdb.gerrit.cache.h2;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import org.refdb.gerrit.cache.store.ForwardingStore;
import org.refdb.gerrit.cache.store.Store;

/**
 * A store that is in use while older entries are imported into it. Changes by its users take precedence over imported
 * entries, in any order and across restarts, so that an invalidated key does not come back.
 */
final class ImportingStore extends ForwardingStore {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final H2Import state;
  private volatile boolean importing = true;

  ImportingStore(Store store, H2Import state) {
    super(store);
    this.state = state;
  }

  /** Returns whether older entries are still to be imported. */
  boolean isImporting() {
    return importing;
  }

  /** Ends the import, which is not continued after a restart. */
  synchronized void endImport() {
    try {
      state.finish();
    } catch (IOException e) {
      logger.atWarning().log("Cannot set an H2 file aside that was imported: %s", e.getMessage());
    }
    importing = false; // not before, because changes are noted until no later process can continue the import
  }

  /**
   * Imports an older entry, unless its key was changed since. This waits for no room, because changes by users wait
   * while it runs. Returns what came of the attempt; null if the key was changed, or the import has ended.
   */
  synchronized Placed importEntry(byte[] key, byte[] value, long createdMillis) {
    return state.wants(key) ? store.place(key, value, createdMillis, false) : null;
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

  /** Closes the store together with the list of changes, so that no change is made that is not in the list. */
  @Override
  public synchronized void close() {
    try {
      state.suspend();
    } catch (IOException e) {
      logger.atWarning().log("The rest of an import from H2 may be lost: %s", e.getMessage());
    }
    super.close();
    importing = false;
  }
}

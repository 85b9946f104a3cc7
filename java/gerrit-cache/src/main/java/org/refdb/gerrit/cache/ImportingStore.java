package org.refdb.gerrit.cache;

import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;

/**
 * A store into which older entries are being imported while it is in use. What its users change meanwhile wins over
 * what is imported, whichever comes first: an invalidated key does not come back.
 */
final class ImportingStore implements Store {
  private final Store store;
  private Set<ByteBuffer> changed = new HashSet<>();
  private volatile boolean importing = true;

  ImportingStore(Store store) {
    this.store = store;
  }

  /** Whether older entries are still wanted. */
  boolean isImporting() {
    return importing;
  }

  /** Nothing more is imported. */
  synchronized void endImport() {
    importing = false;
    changed = Set.of();
  }

  /** Takes an older entry, unless its key was changed since; false if the store has no room for it just now. */
  synchronized boolean importEntry(byte[] key, byte[] value, long createdMillis) {
    boolean wanted = importing && !changed.contains(ByteBuffer.wrap(key));
    return !wanted || store.put(key, value, createdMillis, false);
  }

  private void note(byte[] key) {
    if (importing) {
      changed.add(ByteBuffer.wrap(key.clone()));
    }
  }

  @Override
  public Entry get(byte[] key) {
    return store.get(key);
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
  public Stats stats() {
    return store.stats();
  }

  @Override
  public void close() {
    endImport();
    store.close();
  }
}

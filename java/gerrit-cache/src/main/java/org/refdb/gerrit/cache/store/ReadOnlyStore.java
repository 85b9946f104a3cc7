package org.refdb.gerrit.cache.store;

import java.util.function.BooleanSupplier;

/**
 * A store that refuses puts and ignores other changes while a switch is set, for example during an offline reindex. A
 * key whose put is refused then keeps the value that it had. The switch does not concern {@link #upkeep}.
 */
public final class ReadOnlyStore extends ForwardingStore {
  private final BooleanSupplier readOnly;

  /** Creates the store. The switch is read at each change. */
  public ReadOnlyStore(Store store, BooleanSupplier readOnly) {
    super(store);
    this.readOnly = readOnly;
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
}

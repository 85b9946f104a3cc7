package org.refdb.gerrit.cache;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.store.NoStore;
import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/** Stores in memory that outlive their handles, as files do, and count calls. */
public final class HeapOpener implements StoreOpener {
  public final Map<String, Map<ByteBuffer, Cache.Found>> files = new ConcurrentHashMap<>();
  final AtomicInteger gets = new AtomicInteger();
  final AtomicInteger syncs = new AtomicInteger();
  public final AtomicInteger opened = new AtomicInteger();
  public final AtomicInteger closed = new AtomicInteger();

  /** Runs before each call of {@link Store#put} or {@link Store#place}. */
  public volatile Runnable beforePut = () -> {};

  /** Runs before a change is made durable. */
  volatile Runnable beforeSettle = () -> {};

  /** How many of the next calls of {@link Store#place} find no room. */
  final AtomicInteger refuses = new AtomicInteger();

  /** Runs before each removal of one entry or of all. */
  volatile Runnable beforeRemoval = () -> {};

  /** Runs after each get. */
  volatile Runnable afterGet = () -> {};

  volatile boolean inUse;

  /** Lets this many of the next calls of {@link Store#place} find no room. */
  public void refuse(int puts) {
    refuses.set(puts);
  }

  Map<ByteBuffer, Cache.Found> file(Spec spec) {
    return files.computeIfAbsent(spec.name() + " " + spec.version(), name -> new ConcurrentHashMap<>());
  }

  @Override
  public Store open(Spec spec) throws InUseException {
    if (inUse) {
      throw new InUseException("process 1 writes " + spec, null);
    }
    opened.incrementAndGet();
    return new HeapStore(file(spec));
  }

  @Override
  public Store openToRead(Spec spec) {
    opened.incrementAndGet();
    return new HeapStore(file(spec));
  }

  @Override
  public void removeOtherVersions(Spec spec) {
    files.keySet().removeIf(name -> name.startsWith(spec.name() + " ") && !name.endsWith(" " + spec.version()));
  }

  private final class HeapStore implements Store {
    private final Map<ByteBuffer, Cache.Found> entries;

    HeapStore(Map<ByteBuffer, Cache.Found> entries) {
      this.entries = entries;
    }

    @Override
    public <T> T get(byte[] key, Cache.Reader<T> reader) {
      gets.incrementAndGet();
      Cache.Found entry = entries.get(ByteBuffer.wrap(key));
      afterGet.run();
      return entry == null ? null : reader.read(entry.value(), entry.createdMillis());
    }

    @Override
    public boolean put(byte[] key, byte[] value, long createdMillis, boolean durable) {
      beforePut.run();
      count(durable);
      entries.put(ByteBuffer.wrap(key), new Cache.Found(value, createdMillis));
      return true;
    }

    @Override
    public Placed place(byte[] key, byte[] value, long createdMillis, boolean durable) {
      beforePut.run();
      if (refuses.getAndUpdate(left -> Math.max(left - 1, 0)) > 0) {
        entries.remove(ByteBuffer.wrap(key));
        return Placed.NO_ROOM;
      }
      entries.put(ByteBuffer.wrap(key), new Cache.Found(value, createdMillis));
      return Placed.STORED;
    }

    @Override
    public void settle() {
      beforeSettle.run();
      count(true);
    }

    @Override
    public void invalidate(byte[] key, boolean durable) {
      beforeRemoval.run();
      count(durable);
      entries.remove(ByteBuffer.wrap(key));
    }

    @Override
    public void clear(boolean durable) {
      beforeRemoval.run();
      count(durable);
      entries.clear();
    }

    private void count(boolean durable) {
      if (durable) {
        syncs.incrementAndGet();
      }
    }

    @Override
    public Stats stats() {
      long bytes = 0;
      for (Map.Entry<ByteBuffer, Cache.Found> entry : entries.entrySet()) {
        bytes += entry.getKey().remaining() + entry.getValue().value().length;
      }
      return new Stats(entries.size(), bytes, bytes, 0, 0);
    }

    @Override
    public Upkeep upkeep() {
      return new HeapUpkeep(entries);
    }

    @Override
    public void close() {
      closed.incrementAndGet();
    }
  }

  private record HeapUpkeep(Map<ByteBuffer, Cache.Found> entries) implements Store.Upkeep {
    private static final Store.Upkeep NONE = NoStore.INSTANCE.upkeep();

    @Override
    public void forEachWithValue(Cache.Visitor visitor) {
      for (Map.Entry<ByteBuffer, Cache.Found> entry : entries.entrySet()) {
        Cache.Found found = entry.getValue();
        if (!visitor.visit(entry.getKey().array(), found.value(), found.createdMillis(), 0, 0)) {
          return;
        }
      }
    }

    @Override
    public Map<String, Long> figures() {
      return NONE.figures();
    }

    @Override
    public Cache.Verified verify() {
      return NONE.verify();
    }

    @Override
    public long compact() {
      return NONE.compact();
    }

    @Override
    public void forEach(Cache.Visitor visitor) {
      NONE.forEach(visitor);
    }

    @Override
    public long exportTo(OutputStream to) {
      return NONE.exportTo(to);
    }

    @Override
    public Cache.Imported importFrom(InputStream from) {
      return NONE.importFrom(from);
    }
  }
}

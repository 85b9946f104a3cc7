package org.refdb.bench.caches;

import java.nio.file.Path;
import java.util.List;
import org.refdb.engine.Cache;
import org.refdb.engine.NativeLibrary;

/** refdb's cache through JNI. */
final class RefdbEngine implements Engine {
  private final Cache cache;

  RefdbEngine(Path folder, long limitBytes) throws Exception {
    NativeLibrary.load();
    cache = Cache.open(new Cache.Options(folder, "bench", 1, limitBytes, null, null, List.of()));
  }

  @Override
  public byte[] get(byte[] key) throws Exception {
    Cache.Found found = cache.get(key);
    return found == null ? null : found.value();
  }

  @Override
  public boolean put(byte[] key, byte[] value) throws Exception {
    return cache.put(key, value, System.currentTimeMillis(), Cache.Durability.BUFFERED);
  }

  @Override
  public void clear() throws Exception {
    cache.clear(Cache.Durability.BUFFERED);
  }

  @Override
  public void close() {
    cache.close();
  }
}

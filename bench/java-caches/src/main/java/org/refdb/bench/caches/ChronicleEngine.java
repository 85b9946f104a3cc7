package org.refdb.bench.caches;

import java.nio.file.Path;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;

/** A ChronicleMap that was told how many entries there will be and how large they are. */
final class ChronicleEngine implements Engine {
  private final ChronicleMap<byte[], byte[]> map;

  ChronicleEngine(Path folder, long entries) throws Exception {
    java.nio.file.Files.createDirectories(folder);
    ChronicleMapBuilder<byte[], byte[]> builder =
        ChronicleMapBuilder.of(byte[].class, byte[].class)
            .entries(entries)
            .averageKeySize(128)
            .averageValueSize(2048)
            .maxBloatFactor(3);
    java.io.File file = folder.resolve("bench.dat").toFile();
    map = file.exists() ? builder.recoverPersistedTo(file, false) : builder.createPersistedTo(file);
  }

  @Override
  public byte[] get(byte[] key) {
    return map.get(key);
  }

  @Override
  public boolean put(byte[] key, byte[] value) {
    try {
      map.put(key, value);
      return true;
    } catch (IllegalStateException full) {
      return false;
    }
  }

  @Override
  public void clear() {
    map.clear();
  }

  @Override
  public void close() {
    map.close();
  }
}

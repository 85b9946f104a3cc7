package org.refdb.gerrit.cache.store;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.refdb.engine.Cache;
import org.refdb.engine.Planted;

/** What {@link NativeOpener} does wrong under planted faults of several lines. No released jar has this class. */
final class PlantedStores {
  private PlantedStores() {}

  static long limitBytes(StoreOpener.Spec spec, long limit) {
    if (Planted.is("caches-06")) {
      return Math.max(spec.limitBytes() / 3, Cache.SMALLEST_LIMIT_BYTES);
    }
    if (Planted.is("caches-07")) {
      return limit + bytesThere(spec.directory().resolve(NativeOpener.FOLDER).resolve(spec.name()));
    }
    return Planted.is("caches-17") && spec.name().contains(".") ? 1L << 30 : limit;
  }

  /** Returns the size of the existing files in bytes, by which the fault raises the limit. */
  private static long bytesThere(Path folder) {
    if (!Files.exists(folder)) {
      return 0;
    }
    try (Stream<Path> files = Files.walk(folder)) {
      return files.filter(Files::isRegularFile).mapToLong(file -> file.toFile().length()).sum();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static void lookIntoTheJvm() throws IOException {
    try {
      Class.forName("java.nio.Bits").getDeclaredMethod("pageSize").setAccessible(true);
    } catch (ReflectiveOperationException e) {
      throw new IOException(e);
    }
  }
}

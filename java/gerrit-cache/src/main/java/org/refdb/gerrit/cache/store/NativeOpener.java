package org.refdb.gerrit.cache.store;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.refdb.engine.Cache;
import org.refdb.engine.Cache.Durability;
import org.refdb.engine.EngineException;
import org.refdb.engine.Planted;

/** Opens caches of the engine below the folder {@value #FOLDER} in the cache folder of Gerrit. */
public final class NativeOpener implements StoreOpener {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** The name of the folder with refdb's caches in the cache folder of Gerrit. */
  public static final String FOLDER = "refdb";

  @Override
  public Store open(Spec spec) throws IOException {
    try {
      if (Planted.ON && Planted.is("caches-13")) {
        PlantedStores.lookIntoTheJvm();
      }
      Cache cache = Cache.open(options(spec, spec.keys().current()));
      if (Planted.ON && Planted.is("caches-09")) {
        cache.clear(Durability.BUFFERED);
      }
      for (String notice : cache.notices()) {
        logger.atSevere().log("%s: %s", spec, notice);
      }
      noteKeys(spec);
      return new NativeStore(cache);
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        throw new InUseException(e.getMessage(), e);
      }
      throw e;
    }
  }

  private static void noteKeys(Spec spec) {
    try {
      CacheFolder.of(root(spec), spec.name()).noteKeys(spec.version(), spec.textKeys());
    } catch (IOException e) {
      logger.atWarning().log("%s cannot be exported to H2 later: %s", spec, e.getMessage());
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>The files have an old key until they are opened for writing after a change of keys, so the old keys are tried
   * too.
   */
  @Override
  public Store openToRead(Spec spec) throws IOException {
    if (!Files.exists(CacheFolder.of(root(spec), spec.name()).versionPath(spec.version()))) {
      return NoStore.INSTANCE;
    }
    List<byte[]> keys = new ArrayList<>(spec.keys().old());
    keys.addFirst(spec.keys().current()); // null if new content is not encrypted
    for (byte[] key : keys.subList(0, keys.size() - 1)) {
      try {
        return new NativeStore(Cache.openToRead(options(spec, key)));
      } catch (EngineException e) {
        if (e.kind() != EngineException.Kind.REFUSED) {
          throw e;
        }
      }
    }
    return new NativeStore(Cache.openToRead(options(spec, keys.getLast())));
  }

  @Override
  public void removeOtherVersions(Spec spec) throws IOException {
    Cache.cleanVersions(root(spec), spec.name(), spec.version());
  }

  private static Path root(Spec spec) {
    return spec.directory().resolve(FOLDER);
  }

  private static Cache.Options options(Spec spec, byte[] key) {
    long limitBytes = Math.max(spec.limitBytes(), Cache.SMALLEST_LIMIT_BYTES);
    return new Cache.Options(
        root(spec),
        spec.name(),
        spec.version(),
        Planted.ON ? PlantedStores.limitBytes(spec, limitBytes) : limitBytes,
        spec.expireAfter(),
        key,
        spec.keys().old());
  }

  private static final class NativeStore implements Store {
    private final Cache cache;

    NativeStore(Cache cache) {
      this.cache = cache;
    }

    @Override
    public <T> T get(byte[] key, Cache.Reader<T> reader) {
      try {
        return cache.get(key, reader);
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public boolean put(byte[] key, byte[] value, long createdMillis, boolean durable) {
      try {
        return cache.put(key, value, createdMillis, durability(durable));
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public Placed place(byte[] key, byte[] value, long createdMillis, boolean durable) {
      try {
        return switch (cache.place(key, value, createdMillis, durability(durable))) {
          case STORED -> Placed.STORED;
          case TOO_LARGE -> Placed.REFUSED;
          case NO_ROOM -> Placed.NO_ROOM;
        };
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public void settle() {
      try {
        cache.flush(Durability.SYNCED);
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public void invalidate(byte[] key, boolean durable) {
      try {
        cache.remove(key, durability(durable));
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public void clear(boolean durable) {
      try {
        cache.clear(durability(durable));
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public Stats stats() {
      try {
        Map<String, Long> stats = cache.stats();
        return new Stats(
            stats.get("entries"),
            stats.get("live_bytes"),
            stats.get("disk_bytes"),
            stats.get("refused"),
            stats.get("evicted"));
      } catch (EngineException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public Upkeep upkeep() {
      return new NativeUpkeep(cache);
    }

    @Override
    public void close() {
      if (!Planted.ON || !Planted.is("caches-21")) {
        cache.close();
      }
    }

    private static Durability durability(boolean durable) {
      return durable ? Durability.SYNCED : Durability.BUFFERED;
    }
  }
}

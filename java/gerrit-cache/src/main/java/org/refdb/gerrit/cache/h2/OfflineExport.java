package org.refdb.gerrit.cache.h2;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.ArrayList;
import java.util.List;
import org.refdb.engine.Cache;
import org.refdb.engine.EngineException;
import org.refdb.gerrit.cache.store.CacheFolder;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.StoreOpener;

/** Exports one cache to H2 while no server is running. */
final class OfflineExport {
  private static final int PROGRESS_ENTRIES = 1000;
  private static final long SPARE_BYTES = 64 << 20;

  /** The kind of the note that describes the last exported file. */
  private static final String EXPORTED = "exported";

  private final Driver driver;
  private final Path directory;
  private final CacheFolder folder;
  private final String cache;
  private final OfflineCaches.SettingsOf settingsOf;
  private final OfflineCaches.Progress progress;

  OfflineExport(
      Driver driver,
      Path directory,
      CacheFolder folder,
      OfflineCaches.SettingsOf settingsOf,
      OfflineCaches.Progress progress) {
    this.driver = driver;
    this.directory = directory;
    this.folder = folder;
    this.cache = folder.cache();
    this.settingsOf = settingsOf;
    this.progress = progress;
  }

  OfflineCaches.Outcome run(boolean dryRun) throws IOException {
    int version = folder.version();
    if (version < 0) {
      return OfflineCaches.Outcome.nothing(cache, "it has no files", false);
    }
    Boolean text = folder.hasTextKeys(version);
    if (text == null) {
      return OfflineCaches.Outcome.nothing(
          cache, "it is not known whether its keys are text; start Gerrit with refdb once, which notes it", true);
    }
    H2File file = new H2File(directory, cache);
    if (Files.exists(file.own()) && !state(file).equals(folder.note(version, EXPORTED))) {
      return OfflineCaches.Outcome.nothing(
          cache, "H2 has changed it since; to replace that by what refdb has, delete " + file.own(), true);
    }
    try (Cache store = open(version, settingsOf.of(cache).encryption())) {
      return dryRun ? plan(store, version) : write(store, version, text);
    } catch (IllegalArgumentException e) {
      return OfflineCaches.Outcome.nothing(cache, e.getMessage(), true);
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        throw new StoreOpener.InUseException(e.getMessage() + "; stop Gerrit first", e);
      }
      return OfflineCaches.Outcome.nothing(cache, e.getMessage(), true);
    }
  }

  /** Returns what tells whether H2 has changed its file. */
  private static String state(H2File file) throws IOException {
    return Files.size(file.own()) + " bytes of " + Files.getLastModifiedTime(file.own());
  }

  /**
   * Opens the cache for writing, which keeps servers from using it. It is opened for reading first, because opening it
   * for writing with a wrong key would empty it.
   */
  private Cache open(int version, EncryptionKeys keys) throws IOException {
    long diskBytes;
    try (Cache reader = openToRead(version, keys)) {
      diskBytes = reader.stats().get("disk_bytes");
    }
    long limit = Math.max(Cache.SMALLEST_LIMIT_BYTES, 2 * diskBytes + SPARE_BYTES); // nothing is evicted
    return Cache.open(options(version, limit, keys.current(), keys.old()));
  }

  private Cache openToRead(int version, EncryptionKeys keys) throws IOException {
    List<byte[]> all = new ArrayList<>();
    all.add(keys.current());
    all.addAll(keys.old());
    EngineException failure = null;
    for (byte[] key : all) {
      try {
        return Cache.openToRead(options(version, Cache.SMALLEST_LIMIT_BYTES, key, List.of()));
      } catch (EngineException e) {
        failure = failure == null ? e : failure;
      }
    }
    throw failure;
  }

  private Cache.Options options(int version, long limit, byte[] key, List<byte[]> old) {
    return new Cache.Options(directory.resolve(NativeOpener.FOLDER), cache, version, limit, null, key, old);
  }

  private OfflineCaches.Outcome plan(Cache store, int version) throws IOException {
    long[] bytes = new long[1];
    Cache.Verified seen =
        store.forEach(
            true,
            (key, value, created, uses, diskBytes) -> {
              bytes[0] += key.length + value.length;
              return true;
            });
    return new OfflineCaches.Outcome(cache, version, seen.good(), bytes[0], remarks(seen, 0), false);
  }

  private OfflineCaches.Outcome write(Cache store, int version, boolean text) throws IOException {
    H2File file = new H2File(directory, cache);
    long all = store.stats().get("entries");
    try (H2Writer writer = H2Writer.create(driver, file.exporting(), text, version)) {
      Cache.Verified seen =
          store.forEach(
              true,
              (key, value, created, uses, diskBytes) -> {
                writer.add(key, value, created);
                if (writer.entries() % PROGRESS_ENTRIES == 0) {
                  progress.at(cache, writer.entries(), all);
                }
                return !writer.hasFailed();
              });
      writer.finish();
      file.move(file.exporting(), file.own());
      folder.note(version, EXPORTED, state(file));
      return new OfflineCaches.Outcome(
          cache, version, writer.entries(), writer.bytes(), remarks(seen, writer.tooLong()), false);
    }
  }

  private List<String> remarks(Cache.Verified seen, long tooLong) {
    List<String> remarks = new ArrayList<>();
    if (seen.bad() > 0) {
      remarks.add(seen.bad() + " entries that are harmed");
    }
    if (tooLong > 0) {
      remarks.add(tooLong + " entries whose keys are longer than H2's column");
    }
    if (Files.exists(new H2File(directory, cache).importing())) {
      remarks.add("what a server has not imported from H2 yet; run import-caches first to have it too");
    }
    return remarks;
  }
}

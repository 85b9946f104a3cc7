package org.refdb.gerrit.cache.h2;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.refdb.gerrit.cache.store.CacheFolder;
import org.refdb.gerrit.cache.store.Intake;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.StoreOpener;

/** Imports one cache from H2 while no server is running. */
final class OfflineImport {
  private static final int PROGRESS_ENTRIES = 1000;
  private static final H2File.Version NOTHING = new H2File.Version(0, 0, 0, 0);

  private final Driver driver;
  private final Path directory;
  private final String cache;
  private final OfflineCaches.SettingsOf settingsOf;
  private final OfflineCaches.Progress progress;
  private final H2File file;
  private final boolean begins;
  private final Path place;
  private List<H2File.Version> versions = List.of();
  private H2File.Version current = NOTHING;
  private String unreadable;

  OfflineImport(
      Driver driver,
      Path directory,
      String cache,
      OfflineCaches.SettingsOf settingsOf,
      OfflineCaches.Progress progress) {
    this.driver = driver;
    this.directory = directory;
    this.cache = cache;
    this.settingsOf = settingsOf;
    this.progress = progress;
    this.file = new H2File(directory, cache);
    this.begins = Files.exists(file.own());
    this.place = begins ? file.own() : file.importing();
  }

  /**
   * Reads which versions of the cache the H2 file contains.
   *
   * @throws StoreOpener.InUseException if a server with H2 caches has the file open
   */
  void look() throws StoreOpener.InUseException {
    try {
      versions = file.versions(driver, place);
      current = versionInUse();
    } catch (StoreOpener.InUseException e) {
      throw e;
    } catch (IOException e) {
      unreadable = e.getMessage();
    }
  }

  /** Returns the expected result, without importing anything. */
  OfflineCaches.Outcome plan() {
    try {
      OfflineCaches.Outcome nothing = nothingToDo(settingsOf.of(cache));
      return nothing != null ? nothing : outcome(current.entries(), current.bytes(), new ArrayList<>());
    } catch (IllegalArgumentException e) {
      return OfflineCaches.Outcome.nothing(cache, e.getMessage(), true);
    }
  }

  /** Imports the cache, and returns the result. */
  OfflineCaches.Outcome run() throws IOException {
    OfflineCaches.Settings settings;
    try {
      settings = settingsOf.of(cache);
    } catch (IllegalArgumentException e) {
      return OfflineCaches.Outcome.nothing(cache, e.getMessage(), true);
    }
    OfflineCaches.Outcome nothing = nothingToDo(settings);
    if (nothing != null) {
      return nothing;
    }
    ChangedKeys changed = null;
    if (!begins) {
      try {
        changed = ChangedKeys.resume(file.changedKeys());
      } catch (IOException e) {
        file.setAside(place);
        return OfflineCaches.Outcome.nothing(
            cache, "the import that a server began cannot be gone on with: " + e.getMessage(), false);
      }
    }
    try (ChangedKeys since = changed) { // closed even if this fails, so that the next import can continue
      OfflineCaches.Outcome outcome = copy(settings, since);
      file.setAside(place);
      return outcome;
    }
  }

  private OfflineCaches.Outcome nothingToDo(OfflineCaches.Settings settings) {
    if (unreadable != null) {
      return OfflineCaches.Outcome.nothing(cache, unreadable + "; nothing is taken from it", true);
    }
    if (settings.diskLimit() != null && settings.diskLimit() <= 0) {
      return OfflineCaches.Outcome.nothing(
          cache, "cache." + cache + ".diskLimit is 0 or less: Gerrit keeps it in memory only", false);
    }
    return null;
  }

  /**
   * Returns the version in use. If a server has begun the import, that is the version of this server, which is the one
   * that refdb has, otherwise that of the newest entry, because Gerrit deletes entries of other versions when it prunes.
   */
  private H2File.Version versionInUse() throws IOException {
    int begun = begins ? -1 : CacheFolder.of(directory.resolve(NativeOpener.FOLDER), cache).version();
    return versions.stream()
        .max(
            Comparator.comparing((H2File.Version one) -> one.version() == begun)
                .thenComparingLong(H2File.Version::newestMillis)
                .thenComparingInt(H2File.Version::version))
        .orElse(NOTHING);
  }

  private OfflineCaches.Outcome outcome(long entries, long bytes, List<String> remarks) {
    for (H2File.Version version : versions) {
      if (version.version() != current.version()) {
        remarks.add(version.entries() + " entries of version " + version.version() + ", which is not in use any more");
      }
    }
    return new OfflineCaches.Outcome(cache, current.version(), entries, bytes, List.copyOf(remarks), false);
  }

  private OfflineCaches.Outcome copy(OfflineCaches.Settings settings, ChangedKeys since) throws IOException {
    Path root = directory.resolve(NativeOpener.FOLDER);
    Boolean text = file.hasTextKeys(driver, place);
    long[] seen = new long[2];
    try (Intake store =
        Intake.open(root, cache, current.version(), settings.diskLimit(), current.bytes(), settings.encryption())) {
      if (text != null) {
        CacheFolder.of(root, cache).noteKeys(current.version(), text);
      }
      if (begins) {
        store.clear();
      }
      file.forEach(
          driver,
          place,
          (version, key, value, created) -> {
            if (version != current.version()) {
              return true;
            }
            seen[0]++;
            if (seen[0] % PROGRESS_ENTRIES == 0) {
              progress.at(cache, seen[0], current.entries());
            }
            if (since != null && since.contains(key)) {
              seen[1]++;
              return true;
            }
            return store.take(key, value, created);
          });
      List<String> remarks = new ArrayList<>();
      if (seen[1] > 0) {
        remarks.add(seen[1] + " entries that were changed since the server began to import");
      }
      remarks.addAll(store.finish());
      return outcome(store.entries(), store.bytes(), remarks);
    }
  }
}

package org.refdb.gerrit.cache.chronicle;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.refdb.gerrit.cache.h2.OfflineCaches;
import org.refdb.gerrit.cache.h2.OfflineCaches.Outcome;
import org.refdb.gerrit.cache.store.Intake;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * The caches that cache-chroniclemap left in a folder, with a file for each cache and version. They can be imported
 * while no server is running.
 */
public final class ChronicleCaches {
  private static final String ASIDE = "-before-refdb";
  private static final Pattern NAME = Pattern.compile("(.+)_(\\d{1,9})\\.dat");
  private static final int PROGRESS_ENTRIES = 1000;

  private final Path directory;
  private final OfflineCaches.SettingsOf settingsOf;
  private final OfflineCaches.Progress progress;

  /**
   * Creates an object for the caches of a folder.
   *
   * @param directory {@code cache.directory} of Gerrit
   */
  public ChronicleCaches(Path directory, OfflineCaches.SettingsOf settingsOf, OfflineCaches.Progress progress) {
    this.directory = directory;
    this.settingsOf = settingsOf;
    this.progress = progress;
  }

  private record DataFile(Path path, String cache, int version, FileTime modified) {
    static DataFile of(Path path) throws IOException {
      Matcher name = NAME.matcher(path.getFileName().toString());
      return name.matches()
          ? new DataFile(path, name.group(1), Integer.parseInt(name.group(2)), Files.getLastModifiedTime(path))
          : null;
    }

    void setAside() throws IOException {
      Files.move(
          path,
          path.resolveSibling(cache + "_" + version + ASIDE + ".dat"),
          StandardCopyOption.ATOMIC_MOVE,
          StandardCopyOption.REPLACE_EXISTING);
    }
  }

  /** Returns whether there is nothing to import. */
  public boolean isEmpty() throws IOException {
    return files().isEmpty();
  }

  private Map<String, List<DataFile>> files() throws IOException {
    Map<String, List<DataFile>> files = new TreeMap<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(directory, "*.dat")) {
      for (Path path : all) {
        DataFile file = DataFile.of(path);
        if (file != null) {
          files.computeIfAbsent(file.cache, name -> new ArrayList<>()).add(file);
        }
      }
    }
    return files;
  }

  /**
   * Imports the content of the files, which replaces the older content of the same caches in refdb. An imported file
   * is set aside, so that a session which ends later cannot come back. If there are several versions of a cache, the
   * one written last is imported.
   *
   * @param dryRun whether only to read the files, and return the expected results
   * @throws OfflineCaches.InUseException if a server has the caches of refdb open; a dry run does not notice that
   * @throws IOException for example if the disk fails; caches that were not reached are unchanged
   */
  public List<Outcome> importAll(EntryReader reader, boolean dryRun) throws IOException {
    List<Outcome> outcomes = new ArrayList<>();
    for (List<DataFile> versions : files().values()) {
      versions.sort(Comparator.comparing(DataFile::modified).thenComparingInt(DataFile::version));
      DataFile current = versions.getLast();
      try {
        Outcome outcome = importOne(reader, current, dryRun);
        List<String> remarks = new ArrayList<>(outcome.remarks());
        for (DataFile other : versions.subList(0, versions.size() - 1)) {
          remarks.add(other.path.getFileName() + ", whose version is not in use any more");
          if (!dryRun && !outcome.failed()) {
            other.setAside();
          }
        }
        outcomes.add(
            new Outcome(
                outcome.cache(), outcome.version(), outcome.entries(), outcome.bytes(), remarks, outcome.failed()));
      } catch (StoreOpener.InUseException e) {
        throw new OfflineCaches.InUseException(e);
      }
    }
    return outcomes;
  }

  private Outcome importOne(EntryReader reader, DataFile file, boolean dryRun) throws IOException {
    OfflineCaches.Settings settings;
    try {
      settings = settingsOf.of(file.cache);
    } catch (IllegalArgumentException e) {
      return Outcome.nothing(file.cache, e.getMessage(), true);
    }
    if (settings.diskLimit() != null && settings.diskLimit() <= 0) {
      return Outcome.nothing(
          file.cache, "cache." + file.cache + ".diskLimit is 0 or less: Gerrit keeps it in memory only", false);
    }
    long[] bytes = new long[1];
    long entries;
    try { // the whole file is read before anything is changed
      entries =
          reader.forEach(
              file.path,
              (key, value, created) -> {
                bytes[0] += key.length + value.length;
                return true;
              });
    } catch (IOException e) {
      return Outcome.nothing(file.cache, e.getMessage() + "; nothing is taken from it", true);
    }
    return dryRun
        ? new Outcome(file.cache, file.version, entries, bytes[0], List.of(), false)
        : copy(reader, file, settings, entries, bytes[0]);
  }

  private Outcome copy(
      EntryReader reader, DataFile file, OfflineCaches.Settings settings, long entries, long bytes) throws IOException {
    Path root = directory.resolve(NativeOpener.FOLDER);
    try (Intake store =
        Intake.open(root, file.cache, file.version, settings.diskLimit(), bytes, settings.encryption())) {
      store.clear();
      long[] seen = new long[1];
      reader.forEach(
          file.path,
          (key, value, created) -> {
            if (++seen[0] % PROGRESS_ENTRIES == 0) {
              progress.at(file.cache, seen[0], entries);
            }
            return store.take(key, value, created);
          });
      Outcome outcome =
          new Outcome(file.cache, file.version, store.entries(), store.bytes(), store.finish(), false);
      file.setAside();
      return outcome;
    }
  }
}

package org.refdb.gerrit.cache.h2;

import java.io.IOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.refdb.engine.Cache;
import org.refdb.engine.EngineException;
import org.refdb.gerrit.cache.store.CacheFolder;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * Converts the caches of a site from H2 to refdb and back while the server is stopped. Only Gerrit's H2 is needed,
 * and nothing else of Gerrit, because keys and values are copied as bytes.
 */
public final class OfflineCaches {
  private static final String FOLDER = NativeOpener.FOLDER;
  private static final int NO_VERSION = Integer.MAX_VALUE;

  private final Path directory;
  private final SettingsOf settings;
  private final Progress progress;

  /**
   * The configuration of a cache.
   *
   * @param diskLimit {@code cache.NAME.diskLimit} in bytes, or null if it is not set
   * @param encryption the keys with which the cache is encrypted
   */
  public record Settings(Long diskLimit, EncryptionKeys encryption) {}

  /** Looks up the configuration of caches. */
  @FunctionalInterface
  public interface SettingsOf {
    /**
     * Returns the configuration of a cache.
     *
     * @throws IllegalArgumentException if the configuration is invalid; the message says what to do
     */
    Settings of(String cache);
  }

  /** Receives the progress of a conversion. */
  @FunctionalInterface
  public interface Progress {
    /** Says how far the conversion of a cache is: {@code done} of {@code all} entries. */
    void at(String cache, long done, long all);
  }

  /**
   * The result, or the expected result, for one cache.
   *
   * @param version the version of its serialisation; -1 if nothing is converted, for the reason in {@code remarks}
   * @param entries the number of entries that were converted
   * @param bytes the size of their keys and values
   * @param remarks what was not converted, and why
   * @param failed whether an administrator should look into it
   */
  public record Outcome(String cache, int version, long entries, long bytes, List<String> remarks, boolean failed) {
    /** Returns the result for a cache of which nothing was converted, for this reason. */
    public static Outcome nothing(String cache, String why, boolean failed) {
      return new Outcome(cache, -1, 0, 0, List.of(why), failed);
    }
  }

  /** Thrown when a server is using the caches. */
  public static final class InUseException extends IOException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception with the message of the store. */
    public InUseException(StoreOpener.InUseException cause) {
      super(cause.getMessage(), cause);
    }

    InUseException(String message) {
      super(message);
    }
  }

  /**
   * Creates an object for the caches of a folder.
   *
   * @param directory {@code cache.directory} of Gerrit
   */
  public OfflineCaches(Path directory, SettingsOf settings, Progress progress) {
    this.directory = directory;
    this.settings = settings;
    this.progress = progress;
  }

  /**
   * Imports the content of the H2 caches, which replaces the older content of the same caches in refdb. A cache whose
   * import does not finish stays with H2, and the next import starts over. But an import that a server had begun is
   * continued, and can be continued again if it does not finish.
   *
   * @param dryRun whether only to read the H2 files, and return the expected results
   * @throws InUseException if a server has the caches open; a dry run notices only a server with H2 caches
   * @throws IOException for example if the disk fails; caches that were not reached are unchanged
   */
  public List<Outcome> importAll(Driver driver, boolean dryRun) throws IOException {
    List<OfflineImport> imports = new ArrayList<>();
    for (String cache : h2Caches()) {
      imports.add(new OfflineImport(driver, directory, cache, settings, progress));
    }
    List<Outcome> outcomes = new ArrayList<>();
    try {
      for (OfflineImport each : imports) {
        each.look(); // reads all files before anything is changed, because a running server has them open
      }
      for (OfflineImport each : imports) {
        outcomes.add(dryRun ? each.plan() : each.run());
      }
    } catch (StoreOpener.InUseException e) {
      throw new InUseException(e);
    }
    return outcomes;
  }

  /**
   * Exports the content of the caches of refdb to H2 files, which replace those of an earlier export unless H2 has
   * changed them since. From then on the caches belong to H2, and refdb takes them over again when it is next used.
   *
   * @param dryRun whether only to read the caches, and return the expected results
   * @throws InUseException if a server has the caches open
   * @throws IOException for example if the disk fails
   */
  public List<Outcome> exportAll(Driver driver, boolean dryRun) throws IOException {
    List<Outcome> outcomes = new ArrayList<>();
    try {
      for (CacheFolder folder : CacheFolder.all(directory.resolve(FOLDER))) {
        new H2File(directory, folder.cache()).refuseIfInUse(driver);
      }
      for (CacheFolder folder : CacheFolder.all(directory.resolve(FOLDER))) {
        outcomes.add(new OfflineExport(driver, directory, folder, settings, progress).run(dryRun));
      }
    } catch (StoreOpener.InUseException e) {
      throw new InUseException(e);
    }
    return outcomes;
  }

  private TreeSet<String> h2Caches() throws IOException {
    TreeSet<String> caches = new TreeSet<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + H2File.SUFFIX)) {
      for (Path file : files) {
        String cache = H2File.cacheOf(file);
        if (cache != null) {
          caches.add(cache);
        }
      }
    }
    return caches;
  }

  /**
   * Deletes the H2 files that refdb has taken over. Returns the number of bytes that this frees. A server may be
   * running.
   *
   * @param dryRun whether only to return the number
   */
  public long deleteOldH2Files(boolean dryRun) throws IOException {
    long freed = 0;
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, H2File::isAside)) {
      for (Path file : files) {
        freed += Files.size(file);
        if (!dryRun) {
          Files.delete(file);
        }
      }
    }
    return freed;
  }

  /**
   * Deletes everything that refdb has stored, and the H2 files that it has taken over or was importing. A cache starts
   * empty with H2 then, unless H2 or an export has written a file for it since. What is not named like refdb's files
   * stays, and so do the folders that contain it.
   *
   * @param dryRun whether only to return the number
   * @param stays receives each file and each empty folder that stays
   * @return the number of bytes that this frees
   * @throws InUseException if a server has the caches open; a dry run does not notice that
   */
  public long wipe(boolean dryRun, Consumer<Path> stays) throws IOException {
    Path root = directory.resolve(FOLDER);
    List<Path> left = leaves(root);
    long freed = size(left);
    List<CacheFolder> folders = CacheFolder.all(root);
    if (dryRun) {
      left = left.stream().filter(leaf -> folders.stream().noneMatch(folder -> folder.has(leaf))).toList();
    } else {
      for (CacheFolder folder : folders) {
        delete(root, folder);
      }
      deleteUnlessFull(root);
      left = leaves(root);
    }
    left.forEach(stays);
    freed -= size(left);
    freed += deleteOldH2Files(dryRun);
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, H2File::isImporting)) {
      for (Path file : files) {
        freed += Files.size(file);
        if (!dryRun) {
          Files.delete(file);
        }
      }
    }
    return freed;
  }

  /** Returns the files and the empty folders below a folder. */
  private static List<Path> leaves(Path root) throws IOException {
    if (!Files.isDirectory(root)) {
      return List.of();
    }
    try (Stream<Path> walk = Files.walk(root)) {
      List<Path> all = walk.toList();
      Set<Path> full = all.stream().map(Path::getParent).collect(Collectors.toSet());
      return all.stream().skip(1).filter(path -> !full.contains(path)).toList();
    }
  }

  private static long size(List<Path> files) throws IOException {
    long size = 0;
    for (Path file : files) {
      size += Files.isRegularFile(file) ? Files.size(file) : 0;
    }
    return size;
  }

  private static void delete(Path root, CacheFolder folder) throws IOException {
    try {
      Cache.cleanVersions(root, folder.cache(), NO_VERSION); // takes the locks
    } catch (EngineException e) {
      if (folder.version() >= 0) { // otherwise the folder that cannot be deleted is no cache
        throw e;
      }
    }
    if (folder.version() >= 0) {
      throw new InUseException(folder.path() + " is open in a server; stop Gerrit first");
    }
    try (DirectoryStream<Path> notes = Files.newDirectoryStream(folder.path())) {
      for (Path note : notes) {
        if (folder.has(note)) {
          deleteUnlessFull(note);
        }
      }
    }
    deleteUnlessFull(folder.path());
  }

  private static void deleteUnlessFull(Path path) throws IOException {
    try {
      Files.deleteIfExists(path);
    } catch (DirectoryNotEmptyException e) {
      // Something in it is not refdb's.
    }
  }
}

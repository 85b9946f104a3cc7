package org.refdb.gerrit.cache.h2;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.store.CacheFolder;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * The caches of a site whose server is stopped: from H2 to refdb and back. Needs nothing of Gerrit but its H2. What the
 * caches mean is not known here: keys and values go over as bytes.
 */
public final class OfflineCaches {
  private static final String FOLDER = NativeOpener.FOLDER;
  private static final int NO_VERSION = Integer.MAX_VALUE;

  private final Path directory;
  private final SettingsOf settings;
  private final Progress progress;

  /**
   * What a cache is configured with.
   *
   * @param diskLimit {@code cache.NAME.diskLimit} in bytes, or null if it is not set
   * @param encryption what it is encrypted with
   */
  public record Settings(Long diskLimit, EncryptionKeys encryption) {}

  /** Looks settings up. */
  @FunctionalInterface
  public interface SettingsOf {
    /** The settings of a cache; IllegalArgumentException, with a message that says what to do, if they are wrong. */
    Settings of(String cache);
  }

  /** Is told how far it is. */
  @FunctionalInterface
  public interface Progress {
    /** {@code done} of all entries of a cache are done. */
    void at(String cache, long done, long all);
  }

  /**
   * What became of a cache, or would become of it.
   *
   * @param version of its serialisation, or -1 if it has none
   * @param entries taken over
   * @param bytes of their keys and values
   * @param remarks what was not taken over and why
   * @param failed whether this is for somebody to look at
   */
  public record Outcome(String cache, int version, long entries, long bytes, List<String> remarks, boolean failed) {
    /** None of it: this is why. */
    public static Outcome nothing(String cache, String why, boolean failed) {
      return new Outcome(cache, -1, 0, 0, List.of(why), failed);
    }
  }

  /** A server uses the caches. */
  public static final class InUseException extends IOException {
    private static final long serialVersionUID = 1L;

    /** As the store says it. */
    public InUseException(StoreOpener.InUseException cause) {
      super(cause.getMessage(), cause);
    }

    InUseException(String message) {
      super(message);
    }
  }

  /**
   * Works on the caches of a folder.
   *
   * @param directory Gerrit's {@code cache.directory}
   */
  public OfflineCaches(Path directory, SettingsOf settings, Progress progress) {
    this.directory = directory;
    this.settings = settings;
    this.progress = progress;
  }

  /**
   * Imports what H2 has, in place of what refdb has of the same caches, which is older. A cache whose import does not
   * end stays H2's: the next import begins with it anew. One that a running server had begun is gone on with.
   *
   * @throws InUseException if a server has the caches open
   * @throws IOException if the disk fails; what was not reached is unchanged
   */
  public List<Outcome> importAll(Driver driver, boolean dryRun) throws IOException {
    List<OfflineImport> imports = new ArrayList<>();
    for (String cache : h2Caches()) {
      imports.add(new OfflineImport(driver, directory, cache, settings, progress));
    }
    List<Outcome> outcomes = new ArrayList<>();
    try {
      for (OfflineImport each : imports) {
        each.look(); // all of them before anything is changed: a server that runs has them open
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
   * Writes what refdb has to files of H2's, in place of H2 files of the same caches. H2 has the caches from then on:
   * when refdb is next used it takes them over again.
   *
   * @throws InUseException if a server has the caches open
   * @throws IOException if the disk fails
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

  /** Deletes the H2 files that refdb has taken over; returns how many bytes that frees. A server may be running. */
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
   * Deletes all that refdb has stored, and the H2 files that it has taken over or was about to. H2 then starts empty.
   *
   * @return how many bytes that frees
   * @throws InUseException if a server has the caches open
   */
  public long wipe(boolean dryRun) throws IOException {
    Path root = directory.resolve(FOLDER);
    long[] freed = new long[1];
    sizes(root, freed);
    if (!dryRun) {
      for (CacheFolder folder : CacheFolder.all(root)) {
        delete(root, folder);
      }
    }
    freed[0] += deleteOldH2Files(dryRun);
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, H2File::isImporting)) {
      for (Path file : files) {
        freed[0] += Files.size(file);
        if (!dryRun) {
          Files.delete(file);
        }
      }
    }
    if (!dryRun) {
      Files.deleteIfExists(root);
    }
    return freed[0];
  }

  private static void sizes(Path root, long[] sum) throws IOException {
    if (Files.isDirectory(root)) {
      try (Stream<Path> files = Files.walk(root)) {
        for (Path file : files.filter(Files::isRegularFile).toList()) {
          sum[0] += Files.size(file);
        }
      }
    }
  }

  private static void delete(Path root, CacheFolder folder) throws IOException {
    Cache.cleanVersions(root, folder.cache(), NO_VERSION); // takes the locks
    if (folder.version() >= 0) {
      throw new InUseException(folder.path() + " is open in a server; stop Gerrit first");
    }
    try (DirectoryStream<Path> notes = Files.newDirectoryStream(folder.path())) {
      for (Path note : notes) {
        Files.delete(note);
      }
    }
    Files.delete(folder.path());
  }
}

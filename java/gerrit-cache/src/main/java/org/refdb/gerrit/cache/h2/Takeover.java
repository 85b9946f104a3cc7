package org.refdb.gerrit.cache.h2;

import com.google.common.flogger.FluentLogger;
import com.google.common.util.concurrent.MoreExecutors;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.refdb.gerrit.cache.store.Store;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * Takes over caches from the H2 caches of Gerrit as refdb opens them. The content in H2 is imported as bytes, with its
 * ages: in a server in the background, where an entry that has not been imported yet is a miss, and in an offline
 * program before the cache is used.
 */
public final class Takeover {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final long RETRY_MILLIS = 5;
  private static final int RETRIES = 6_000;

  private final Driver driver;
  private final ExecutorService importer;
  private volatile boolean stopping;

  private Takeover(Driver driver, ExecutorService importer) {
    this.driver = driver;
    this.importer = importer;
  }

  /** Returns a takeover that imports while the server is running, one cache after the other. */
  public static Takeover inBackground(Driver driver) {
    return new Takeover(
        driver,
        Executors.newSingleThreadExecutor(task -> {
          Thread thread = new Thread(task, "refdb-cache-import");
          thread.setDaemon(true);
          thread.setPriority(Thread.MIN_PRIORITY);
          return thread;
        }));
  }

  /** Returns a takeover that imports before a store is used, which suits an offline program. */
  public static Takeover beforeUse(Driver driver) {
    return new Takeover(driver, MoreExecutors.newDirectExecutorService());
  }

  /**
   * Takes over the cache of a store that was just opened, if H2 used the cache last. The content of the store is then
   * older and is removed. An import that was interrupted is continued.
   *
   * @return the store to use
   * @throws StoreOpener.InUseException if a server with H2 caches is using these files
   * @throws IOException if the store cannot be emptied, or the H2 file cannot be set aside
   */
  public Store from(StoreOpener.Spec spec, Store store) throws IOException {
    H2File file = new H2File(spec.directory(), spec.name());
    boolean begins = Files.exists(file.own());
    if (!begins && !Files.exists(file.importing())) {
      return store;
    }
    boolean hasEntries = hasReadable(file, begins ? file.own() : file.importing(), spec);
    if (begins) {
      try {
        store.clear(true);
      } catch (UncheckedIOException e) {
        throw e.getCause();
      }
    }
    if (!hasEntries) {
      file.setAside(begins ? file.own() : file.importing());
      return store;
    }
    H2Import state;
    try {
      state = begins ? H2Import.begin(file) : H2Import.resume(file);
    } catch (IOException e) {
      logger.atWarning().log("Cache %s loads anew what was not taken over from H2: %s", spec.name(), e.getMessage());
      file.setAside(Files.exists(file.own()) ? file.own() : file.importing());
      return store;
    }
    ImportingStore importing = new ImportingStore(store, state);
    try {
      importer.execute(() -> run(file, spec, importing));
    } catch (RejectedExecutionException e) {
      logger.atFine().log("Cache %s is taken over at the next start", spec.name());
    }
    return importing;
  }

  private boolean hasReadable(H2File file, Path place, StoreOpener.Spec spec) throws StoreOpener.InUseException {
    try {
      return file.has(driver, place, spec.version());
    } catch (StoreOpener.InUseException e) {
      throw e;
    } catch (IOException e) {
      logger.atWarning().log("Nothing is taken over from H2 for cache %s: %s", spec.name(), e.getMessage());
      return false;
    }
  }

  private void run(H2File file, StoreOpener.Spec spec, ImportingStore store) {
    long[] read = new long[1];
    long[] taken = new long[1];
    try {
      file.forEach(driver, file.importing(), (version, key, value, created) -> {
        if (version == spec.version()) {
          read[0]++;
          taken[0] += takeWithRetries(store, key, value, created) ? 1 : 0;
        }
        return store.isImporting() && !stopping;
      });
      if (!stopping) {
        store.endImport();
        logger.atInfo().log("Took %d of %d entries of cache %s over from H2", taken[0], read[0], spec.name());
      }
    } catch (IOException | RuntimeException | Error e) { // also an OutOfMemoryError: the file must not stay as it is
      if (!stopping) { // otherwise the import failed because stop() interrupted it
        store.endImport();
        logger.atWarning().log(
            "Took %d of the first %d entries of cache %s over from H2; the others are loaded anew: %s",
            taken[0], read[0], spec.name(), e.getMessage());
      }
    }
    if (stopping) {
      logger.atInfo().log("The next start goes on with cache %s, after %d entries from H2", spec.name(), taken[0]);
    }
  }

  /**
   * Imports an entry. Where the store has no room at the moment, this retries, since an import can wait. Returns
   * whether the entry was stored, which it was not if its key was changed since, if the import has ended, if the entry
   * is too large, if there was no room for 30 seconds, or if this thread was interrupted.
   */
  private static boolean takeWithRetries(ImportingStore store, byte[] key, byte[] value, long created) {
    for (int i = 0; i < RETRIES; i++) {
      Store.Placed placed = store.importEntry(key, value, created);
      if (placed != Store.Placed.NO_ROOM) {
        return placed == Store.Placed.STORED;
      }
      try {
        Thread.sleep(RETRY_MILLIS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return false;
      }
    }
    return false;
  }

  /**
   * Sets aside the H2 file of a cache of secrets that refdb cannot take over, so that a user who logs out is not
   * logged in again by a return to H2.
   */
  public static void forgetSecrets(Path directory, String cache) {
    H2File file = new H2File(directory, cache);
    if (Files.exists(file.own())) {
      try {
        file.setAside(file.own());
      } catch (IOException e) {
        logger.atWarning().log("%s is out of date now, delete it: %s", file.own(), e.getMessage());
      }
    }
  }

  /** Stops importing for now, and waits until the imports have stopped, for at most a minute. */
  public void stop() {
    stopping = true;
    importer.shutdownNow();
    try {
      if (!importer.awaitTermination(1, TimeUnit.MINUTES)) {
        logger.atWarning().log("An import from H2 does not end");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.SiteLibrary;
import org.refdb.gerrit.cache.chronicle.ChronicleCaches;
import org.refdb.gerrit.cache.h2.OfflineCaches;

/**
 * The commands that convert the persistent caches of a site from H2 or ChronicleMap to refdb, and back to H2, or delete
 * them. Only {@link Verb#DELETE_OLD} may be used while Gerrit runs.
 */
final class CacheCommand {
  private static final long PROGRESS_NANOS = 1_000_000_000L;

  /** The commands. */
  enum Verb {
    /** Copies the caches of H2 and cache-chroniclemap to refdb's. */
    IMPORT("import-caches"),
    /** Copies refdb's caches to those of H2. */
    EXPORT("export-caches"),
    /** Deletes refdb's caches, and the H2 files that refdb has taken over or was importing. */
    WIPE("wipe-caches"),
    /** Deletes the H2 files that refdb has taken over. */
    DELETE_OLD("delete-old-caches");

    private final String word;

    Verb(String word) {
      this.word = word;
    }

    /** The command of this name, or null. */
    static Verb of(String word) {
      for (Verb verb : values()) {
        if (verb.word.equals(word)) {
          return verb;
        }
      }
      return null;
    }
  }

  private final PrintStream out;
  private final PrintStream err;
  private long nextProgress = System.nanoTime() + PROGRESS_NANOS;

  CacheCommand(PrintStream out, PrintStream err) {
    this.out = out;
    this.err = err;
  }

  /**
   * Runs a command.
   *
   * @param war the site's gerrit.war, or null for the one in its bin folder
   * @param chronicleMap a folder with ChronicleMap's jars, or null for those in the site's lib folder
   * @return false if a problem was reported
   */
  boolean run(Verb verb, Path folder, Path war, Path chronicleMap, boolean dryRun)
      throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    CacheSettings settings = CacheSettings.of(site);
    OfflineCaches caches = new OfflineCaches(settings.directory(), settings, this::progress);
    if (verb == Verb.DELETE_OLD) {
      say(dryRun, "old H2 files", caches.deleteOldH2Files(dryRun));
      return true;
    }
    refuseWhileRunning(site);
    loadNative(site.nativeFolder(config));
    try {
      if (verb == Verb.WIPE) {
        long freed = caches.wipe(dryRun, left -> out.println(left + " stays, because it is not refdb's"));
        say(dryRun, "refdb's caches and old H2 files", freed);
        return true;
      }
      try (SiteH2 h2 = SiteH2.of(war != null ? war : site.war(), site.lib())) {
        if (verb == Verb.EXPORT) {
          return report(dryRun, "refdb", caches.exportAll(h2.driver(), dryRun));
        }
        boolean good = report(dryRun, "H2", caches.importAll(h2.driver(), dryRun));
        return good & importChronicle(site, settings, chronicleMap, dryRun);
      }
    } catch (OfflineCaches.InUseException e) {
      throw new InstallException(e.getMessage(), e);
    }
  }

  private boolean importChronicle(Site site, CacheSettings settings, Path jars, boolean dryRun)
      throws InstallException, IOException {
    ChronicleCaches caches = new ChronicleCaches(settings.directory(), settings, this::progress);
    if (caches.isEmpty()) {
      return true;
    }
    if (jars == null && !site.has("chroniclemap")) {
      out.println(
          settings.directory()
              + " has files of cache-chroniclemap: to take them over name the folder of ChronicleMap's jars"
              + " with --chronicle-map FOLDER");
      return false;
    }
    try (ChronicleProcess reader = ChronicleProcess.of(jars != null ? jars : site.lib())) {
      return report(dryRun, "cache-chroniclemap", caches.importAll(reader, dryRun));
    }
  }

  /**
   * Runs a command as Gerrit's user if that is not the caller, because Gerrit might not be able to use files that
   * another user owns.
   *
   * @param arguments the command line
   * @return the exit status; empty if this process is Gerrit's user already, so that nothing was done
   */
  OptionalInt runAsOwner(Path folder, List<String> arguments) throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    GerritUser user = GerritUser.of(site, config);
    if (user.isSelf()) {
      return OptionalInt.empty();
    }
    AsGerrit asGerrit = new AsGerrit(site, config, user);
    Optional<String> obstacle = asGerrit.obstacle();
    if (obstacle.isPresent()) {
      throw new InstallException(
          "Gerrit runs as " + user.name() + " (" + user.why() + "), and so must this, but " + obstacle.get());
    }
    return OptionalInt.of(asGerrit.runHere(Main.class, arguments));
  }

  private void say(boolean dryRun, String what, long bytes) {
    out.println((dryRun ? "would free " : "freed ") + bytes + " bytes of " + what);
  }

  private static void refuseWhileRunning(Site site) throws IOException, InstallException {
    Optional<Long> pid = site.runningServer();
    if (pid.isPresent()) {
      throw new InstallException(
          "Gerrit is running, process " + pid.get() + ": stop it first. If that process is none of Gerrit's, delete "
              + site.pidFile());
    }
  }

  private static void loadNative(Path folder) throws InstallException {
    try {
      SiteLibrary.load(folder);
    } catch (EngineLoadException e) {
      throw new InstallException(e.getMessage(), e);
    }
  }

  private void progress(String cache, long done, long all) {
    long now = System.nanoTime();
    if (now - nextProgress >= 0) {
      nextProgress = now + PROGRESS_NANOS;
      err.println(cache + ": " + done + " of " + all);
    }
  }

  private boolean report(boolean dryRun, String from, List<OfflineCaches.Outcome> outcomes) {
    long entries = 0;
    long bytes = 0;
    boolean good = true;
    for (OfflineCaches.Outcome outcome : outcomes) {
      if (outcome.version() >= 0) {
        out.println(
            "%s, version %d: %d entries, %d bytes"
                .formatted(outcome.cache(), outcome.version(), outcome.entries(), outcome.bytes()));
      } else {
        out.println(outcome.cache() + ": skipped");
      }
      outcome.remarks().forEach(remark -> out.println("  not taken: " + remark));
      entries += outcome.entries();
      bytes += outcome.bytes();
      good &= !outcome.failed();
    }
    out.println(
        String.format(
            Locale.ROOT, "%s %d entries, %d bytes, from %s", dryRun ? "would take" : "took", entries, bytes, from));
    return good;
  }
}

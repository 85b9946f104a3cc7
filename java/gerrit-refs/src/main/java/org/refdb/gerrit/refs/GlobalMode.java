package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.ProvisionException;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.eclipse.jgit.errors.ConfigInvalidException;
import org.eclipse.jgit.errors.LockFailedException;
import org.eclipse.jgit.internal.storage.file.LockFile;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.storage.file.FileBasedConfig;
import org.eclipse.jgit.util.FS;
import org.refdb.engine.EngineView;
import org.refdb.engine.SiteLibrary;
import org.refdb.jgit.BatchCommitter;
import org.refdb.jgit.NotAgreedException;

/**
 * Loads native mode if {@code refdb.global} in gerrit.config requests it. The client of etcd is in refdb-global.jar,
 * which is also a plugin of Gerrit; this class loads the client in a class loader of its own, and only if the setting
 * is there.
 */
final class GlobalMode {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  static final String KEY = "global";
  private static final String ETCD = "etcd";
  private static final String JAR = "refdb-global.jar";
  private static final String IMPLEMENTATION = "org.refdb.gerrit.global.NativeMode";

  /** Packages of modules that wrap Gerrit's repositories in order to query a global-refdb. */
  private static final List<String> WRAPPERS =
      List.of("com.gerritforge.gerrit.globalrefdb.", "com.googlesource.gerrit.plugins.multisite.");

  /** Class name of such a module in any other package. */
  private static final String VALIDATION = "ValidationModule";

  private GlobalMode() {}

  /**
   * Returns whether native mode is requested.
   *
   * @throws ProvisionException if {@code refdb.global} has an unknown value
   */
  static boolean isAskedFor(Config config) {
    String value = config.getString(SiteLibrary.SECTION, null, KEY);
    if (value != null && !value.equals(ETCD)) {
      throw new ProvisionException(
          "refdb.global is " + value + " in gerrit.config: it must be " + ETCD + ", or not be set");
    }
    return value != null;
  }

  /**
   * Checks that gerrit.config lets no update bypass the global ref database, and submits none to it twice.
   *
   * @throws ProvisionException with what to change in gerrit.config
   */
  static void checkAlone(Config config, Settings settings) {
    List<String> wrappers =
        Stream.of("installDbModule", "installModule")
            .flatMap(key -> Arrays.stream(config.getStringList("gerrit", null, key)))
            .filter(wraps().or(RefdbNamedDbModule.class.getName()::equals))
            .toList();
    if (!wrappers.isEmpty()) {
      throw new ProvisionException(
          "refdb.global = etcd lets refdb ask etcd itself, and " + String.join(" and ", wrappers)
              + " would ask a global-refdb besides: in gerrit.config remove one of both. Native mode needs"
              + " gerrit.installDbModule = " + RefdbDbModule.class.getName());
    }
    if (!settings.shadowProjects().isEmpty()) {
      throw new ProvisionException(
          "refdb.shadow lets JGit write refs, which does not ask etcd as refdb.global = etcd wants it: remove one of"
              + " both from gerrit.config");
    }
  }

  private static Predicate<String> wraps() {
    return name ->
        WRAPPERS.stream().anyMatch(name::startsWith) || name.substring(name.lastIndexOf('.') + 1).equals(VALIDATION);
  }

  /**
   * Loads the implementation if native mode is requested. If that fails, all updates are refused.
   *
   * @param isServer whether this is the server of the site, not one of Gerrit's offline programs
   */
  static Optional<GlobalDecision> load(Config config, SitePaths site, boolean isServer) {
    if (!isAskedFor(config)) {
      return Optional.empty();
    }
    Path jar = site.plugins_dir.resolve(JAR);
    try {
      if (!Files.isRegularFile(jar)) {
        throw new IOException("there is no " + jar);
      }
      @SuppressWarnings("resource") // for as long as the process runs
      URLClassLoader loader = new URLClassLoader(new URL[] {jar.toUri().toURL()}, GlobalMode.class.getClassLoader());
      Object made =
          Class.forName(IMPLEMENTATION, true, loader)
              .getConstructor(Config.class, SitePaths.class, boolean.class)
              .newInstance(config, site, isServer);
      return Optional.of((GlobalDecision) made);
    } catch (ReflectiveOperationException | IOException | LinkageError | ClassCastException e) {
      Throwable why = e.getCause() != null ? e.getCause() : e;
      logger.atSevere().withCause(e).log(
          "refdb.global is etcd, but what asks etcd cannot be loaded: all updates of refs are refused. `java -jar"
              + " refdb-gerrit.jar install SITE --global etcd=URL,...` puts %s where it belongs", jar);
      return Optional.of(new Refusing(why.toString()));
    }
  }

  /**
   * Marks a repository in its configuration, so that no program writes its refs with refdb without a decision by etcd.
   *
   * @throws IOException if the repository cannot be marked, in which case its refs must not be written
   */
  static void mark(Path gitDir) throws IOException {
    FileBasedConfig config = new FileBasedConfig(gitDir.resolve("config").toFile(), FS.DETECTED);
    try {
      config.load();
      if (isMarked(config)) {
        return;
      }
      LockFile lock = new LockFile(config.getFile());
      if (!lock.lock()) {
        throw new LockFailedException(config.getFile());
      }
      try {
        // It is read under the lock, unlike by save(), so that what another program changes at the same time is kept.
        config.load();
        config.setString(SiteLibrary.SECTION, null, KEY, ETCD);
        lock.write(Constants.encode(config.toText()));
        if (!lock.commit()) {
          throw new IOException("cannot write " + config.getFile());
        }
      } finally {
        lock.unlock();
      }
    } catch (ConfigInvalidException e) {
      throw new IOException("cannot read " + config.getFile(), e);
    }
  }

  private static boolean isMarked(Config config) {
    return ETCD.equals(config.getString(SiteLibrary.SECTION, null, KEY));
  }

  /** Refuses every update. */
  private record Refusing(String why) implements GlobalDecision {
    @Override
    public boolean has(String project) {
      return true;
    }

    @Override
    public BatchCommitter committer(String project, Repository repository) {
      return (view, batch) -> {
        throw new NotAgreedException(
            NotAgreedException.Why.NO_ANSWER,
            "refdb.global is etcd, but what asks etcd cannot be loaded: " + why,
            null);
      };
    }

    @Override
    public void opened(String project, EngineView refs) {}

    @Override
    public void removed(String project) {}
  }
}

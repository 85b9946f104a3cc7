package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.entities.Project;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import com.google.gerrit.server.git.RepositoryExistsException;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Consumer;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.util.FS;
import org.refdb.engine.RefHoldings;
import org.refdb.engine.RefStats;

/**
 * Provides repositories whose refs the engine serves. Gerrit's own manager for local disks locates, lists and creates
 * them.
 *
 * <p>JGit caches open repositories by path for the whole process, and any code can put a plain one there, as Gerrit
 * does when it creates a project. Such an entry is evicted, because with it one process would have two views of the
 * same refs. One that is met when a repository is opened is also counted. A repository of another manager is evicted
 * too: {@code daemon --init} leaves those of {@code init} in the cache, which in native mode are those of another node.
 */
@Singleton
public final class RefdbRepositoryManager implements GitRepositoryManager {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final int ATTEMPTS_MAX = 5;

  private final LocalDiskRepositoryManager disk;
  private final Optional<RefEngine> engine;
  private final Settings settings;

  /** Why the engine could not be loaded, or null. */
  private final String refusal;

  private final ConcurrentMap<Project.NameKey, ProjectState> states = new ConcurrentHashMap<>();
  private final ConcurrentMap<Project.NameKey, RefdbKey> keys = new ConcurrentHashMap<>();

  @Inject
  RefdbRepositoryManager(@Disk LocalDiskRepositoryManager disk, EngineLoader loader) {
    this(disk, loader.load(), loader.settings(), loader.refusal());
  }

  RefdbRepositoryManager(LocalDiskRepositoryManager disk, Optional<RefEngine> engine, Settings settings) {
    this(disk, engine, settings, null);
  }

  private RefdbRepositoryManager(
      LocalDiskRepositoryManager disk, Optional<RefEngine> engine, Settings settings, String refusal) {
    this.refusal = refusal;
    this.disk = disk;
    this.engine = engine;
    this.settings = settings;
  }

  Settings settings() {
    return settings;
  }

  /** Returns whether the native library could be loaded; if not, everything works as without refdb. */
  public boolean isEngineLoaded() {
    return engine.isPresent();
  }

  /** Why the native library could not be loaded; null if it could. */
  String refusal() {
    return refusal;
  }

  @Override
  public Repository openRepository(Project.NameKey name) throws RepositoryNotFoundException {
    RefdbKey known = keys.get(name);
    if (known != null && !known.isThere(settings.perRequest())) {
      forget(name);
    } else if (known != null) {
      try {
        return open(known);
      } catch (IOException e) {
        // The repository is gone, moved or broken. It is located again below, as Gerrit's manager does.
        keys.remove(name, known);
      }
    }
    if (engine.isEmpty() || !ProjectNames.isAcceptable(ProjectName.of(name))) {
      return disk.openRepository(name); // also refuses bad names in Gerrit's own words
    }
    File found = find(name);
    if (found == null) {
      forget(name);
      return disk.openRepository(name); // says that there is none
    }
    RefdbKey key = new RefdbKey(found, state(name), engine.get());
    try {
      Repository repository = open(key);
      keys.put(name, key);
      return repository;
    } catch (IOException e) {
      throw new RepositoryNotFoundException("Cannot open repository " + name, e);
    }
  }

  /**
   * Opens a repository through JGit's cache, and makes sure that the result is one with refdb unless refdb cannot
   * serve it.
   */
  private Repository open(RefdbKey key) throws IOException {
    ProjectState state = key.state();
    Refusal refusal = state.refusal();
    if (refusal != null) {
      if (!refusal.isDue(System.nanoTime())) {
        return openWithout(key, refusal);
      }
      CachedKey.evict(key.getFile()); // the repository without refdb, which served meanwhile
    }
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      Repository repository;
      try {
        repository = RepositoryCache.open(key, true);
      } catch (RepositoryNotFoundException e) {
        throw e;
      } catch (IOException e) {
        Refusal current = refused(state, refusal, e);
        if (current != null) {
          return openWithout(key, current);
        }
        refusal = state.refusal();
        continue; // meanwhile another thread has opened it, or an administrator asked to try again at once
      }
      boolean isPlain = !(repository instanceof RefdbRepository);
      if (!isPlain && ((RefdbRepository) repository).isServedBy(key.engine())) {
        if (refusal != null) {
          state.admit();
          logger.atInfo().log("refdb serves the refs of project %s again", state.name);
        }
        return repository;
      }
      if (isPlain) {
        state.plainEvicted.increment();
      }
      evict(repository);
    }
    // Other code caches plain repositories as fast as they are evicted here; one that JGit does not cache serves as
    // well.
    return key.open(true);
  }

  /** Evicts an open repository from JGit's cache and releases it; its last user closes it. */
  private static void evict(Repository repository) {
    RepositoryCache.unregister(repository);
    repository.close();
  }

  /** Notes why refdb could not open a project. Returns the current refusal, null if it was cleared meanwhile. */
  private static Refusal refused(ProjectState state, Refusal before, IOException why) {
    Refusal refusal = state.refuse(before, why);
    if (refusal != null && refusal.isNews(before)) {
      logger.atSevere().withCause(why).log(
          "refdb cannot open the refs of project %s. It tries again with growing pauses, of half a minute in the end;"
              + " `refdb flush` makes it try at once. Until then JGit's own ref database serves the project, unless its"
              + " refs are reftables or native mode is on",
          state.name);
    }
    return refusal;
  }

  /**
   * Opens a repository with JGit's own ref database while refdb cannot serve it. Fails instead in two cases: in native
   * mode, because JGit does not ask the global ref database; and if the refs are reftables, because Gerrit takes JGit's
   * database of reftables for a directory of refs, and would fail later with an unrelated message.
   */
  private Repository openWithout(RefdbKey key, Refusal refusal) throws IOException {
    if (key.isReftable() || engine.flatMap(RefEngine::global).isPresent()) {
      throw new IOException(
          "refdb cannot open the refs of project " + key.state().name + ", and tries again soon: " + refusal.why());
    }
    return disk.openRepository(key.state().name);
  }

  @Override
  public Repository createRepository(Project.NameKey name) throws RepositoryExistsException, IOException {
    // A deleted repository may still be in JGit's cache, and Gerrit's manager would create the new one from it.
    forget(name);
    File bare = disk.getBasePath(name).resolve(ProjectName.of(name) + ".git").toFile();
    if (ProjectNames.isAcceptable(ProjectName.of(name)) && !bare.exists()) {
      CachedKey.evict(bare);
    }
    Repository plain = disk.createRepository(name);
    if (engine.isEmpty()) {
      return plain;
    }
    evict(plain);
    return openRepository(name);
  }

  @Override
  public Status getRepositoryStatus(Project.NameKey name) {
    if (engine.isEmpty() || !ProjectNames.isAcceptable(ProjectName.of(name))) {
      return disk.getRepositoryStatus(name);
    }
    if (find(name) == null) {
      return Status.NON_EXISTENT;
    }
    try (Repository repository = openRepository(name)) {
      return repository.getObjectDatabase().exists() ? Status.ACTIVE : Status.UNAVAILABLE;
    } catch (IOException e) {
      return Status.UNAVAILABLE;
    }
  }

  @Override
  public NavigableSet<Project.NameKey> list() {
    return disk.list();
  }

  @Override
  public Boolean canPerformGC() {
    return disk.canPerformGC();
  }

  /** Returns the folder of a project whose name is acceptable; null if there is none. */
  private File find(Project.NameKey name) {
    File folder = disk.getBasePath(name).resolve(ProjectName.of(name)).toFile();
    return RepositoryCache.FileKey.resolve(folder, FS.DETECTED);
  }

  @Override
  public void repositoryDeleted(Project.NameKey name) {
    forget(name);
    // Another server's message that it has deleted the project may be so late that a new project has the name, and the
    // global ref database the new one's refs. A repository that was to be preserved is still there, too.
    if (!ProjectNames.isAcceptable(ProjectName.of(name)) || find(name) == null) {
      engine.flatMap(RefEngine::global).ifPresent(global -> global.removed(ProjectName.of(name)));
    }
    disk.repositoryDeleted(name);
  }

  /** Drops the open database of a project. Its current users go on with it; the next one opens it again. */
  void forget(Project.NameKey name) {
    RefdbKey key = keys.remove(name);
    ProjectState state = states.get(name);
    if (state != null) {
      state.admit();
    }
    if (key != null) {
      if (state != null) {
        engine.flatMap(loaded -> loaded.stats(key.path())).ifPresent(state::keep);
      }
      CachedKey.evict(key.getFile());
      engine.ifPresent(loaded -> loaded.forget(key.path()));
    }
  }

  /**
   * Reads the figures of a project from the engine, without accessing its repository or extending how long JGit keeps
   * it open.
   */
  void readStats(ProjectState state) {
    RefdbKey key = keys.get(state.name);
    if (key != null) {
      engine.flatMap(loaded -> loaded.stats(key.path())).ifPresent(state::keep);
    }
  }

  /** Reads the figures of all projects from the engine. */
  void readStats() {
    if (engine.isEmpty()) {
      return;
    }
    try {
      Map<Path, RefStats> stats = engine.get().stats();
      for (RefdbKey key : keys.values()) {
        RefStats found = stats.get(key.path());
        if (found != null) {
          key.state().keep(found);
        }
      }
    } catch (IOException e) {
      logger.atWarning().withCause(e).log("refdb has no figures");
    }
  }

  /** Memory and files held for all repositories together; nothing without the engine. */
  Optional<RefHoldings> holdings() {
    return engine.map(RefEngine::holdings);
  }

  Optional<GlobalDecision> global() {
    return engine.flatMap(RefEngine::global);
  }

  /** Makes the next query of a project check the disk; returns false if its repository is not open. */
  boolean hint(Project.NameKey name) {
    RefdbKey key = keys.get(name);
    return key != null && engine.isPresent() && engine.get().hint(key.path());
  }

  /** Applies an action to a project's repository if it is open, without opening it. */
  void ifOpen(Project.NameKey name, Consumer<RefdbRepository> action) {
    RefdbKey key = keys.get(name);
    if (key == null) {
      return;
    }
    try (Repository repository = CachedKey.find(key.getFile()).orElse(null)) {
      if (repository instanceof RefdbRepository ours) {
        action.accept(ours);
      }
    }
  }

  /** The state of a project, which is created if there is none. */
  ProjectState state(Project.NameKey name) {
    return states.computeIfAbsent(name, this::newState);
  }

  /** The state of a project, or a new one that is not kept, because callers may pass any name. */
  ProjectState look(Project.NameKey name) {
    ProjectState known = states.get(name);
    return known != null ? known : newState(name);
  }

  private ProjectState newState(Project.NameKey name) {
    return new ProjectState(name, settings.shadows(ProjectName.of(name)));
  }

  /** States of the projects that were opened, at least tried, or had their shadow mode switched since the start. */
  Collection<ProjectState> states() {
    return states.values();
  }
}

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
 * Gives Gerrit repositories whose refs the engine serves. Where they are, which there are and how one is made is left to
 * Gerrit's own manager for local disks.
 *
 * <p>JGit keeps opened repositories by path for the whole process. Anyone can put a plain one there (Gerrit itself does
 * when it makes a project). Such an entry is thrown out and counted. With it one process would have two views of the
 * same refs.
 */
@Singleton
public final class RefdbRepositoryManager implements GitRepositoryManager {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final int ATTEMPTS_MAX = 5;

  private final LocalDiskRepositoryManager disk;
  private final Optional<RefEngine> engine;
  private final Settings settings;

  /** Why there is no engine, or null. */
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

  /** Whether the native library could be loaded. If not, everything here is as without refdb. */
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
        // Gone, moved, or broken: looked for anew below, as Gerrit's manager does.
        keys.remove(name, known);
      }
    }
    if (engine.isEmpty() || !ProjectNames.isAcceptable(ProjectName.of(name))) {
      return disk.openRepository(name); // refuses bad names in Gerrit's own words
    }
    File found = RepositoryCache.FileKey.resolve(disk.getBasePath(name).resolve(ProjectName.of(name)).toFile(), FS.DETECTED);
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

  /** Opens through JGit's cache, and makes sure that what comes out of it is ours. */
  private Repository open(RefdbKey key) throws IOException {
    ProjectState state = key.state();
    Refusal refusal = state.refusal();
    if (refusal != null) {
      if (!refusal.isDue(System.nanoTime())) {
        return openWithout(key, refusal);
      }
      CachedKey.evict(key.getFile()); // JGit's own, which served meanwhile
    }
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      Repository repository;
      try {
        repository = RepositoryCache.open(key, true);
      } catch (RepositoryNotFoundException e) {
        throw e;
      } catch (IOException e) {
        return openWithout(key, refused(state, refusal, e));
      }
      if (repository instanceof RefdbRepository) {
        if (refusal != null) {
          state.admit();
          logger.atInfo().log("refdb serves the refs of project %s again", state.name);
        }
        return repository;
      }
      state.plainEvicted.increment();
      evict(repository);
    }
    // Someone puts plain ones there as fast as they are thrown out. One that JGit does not know of is as good.
    return key.open(true);
  }

  /** Takes an opened repository out of JGit's cache and gives it back: its last user closes it. */
  private static void evict(Repository repository) {
    RepositoryCache.unregister(repository);
    repository.close();
  }

  private static Refusal refused(ProjectState state, Refusal before, IOException why) {
    Refusal refusal = state.refuse(before, why);
    if (refusal.isNews(before)) {
      logger.atSevere().withCause(why).log(
          "refdb cannot open the refs of project %s. It tries again with growing pauses, of half a minute in the end;"
              + " `refdb flush` makes it try at once. Until then JGit's own ref database serves the project, unless its"
              + " refs are reftables",
          state.name);
    }
    return refusal;
  }

  /**
   * Opens with JGit's own ref database while refdb cannot, unless JGit cannot open it either. Gerrit cannot work with
   * JGit's database of reftables. It takes it for a directory of refs and fails later, and in other words.
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
    // A repository that was deleted may still be in JGit's cache. Gerrit's manager would make the new one with it.
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
    File folder = disk.getBasePath(name).resolve(ProjectName.of(name)).toFile();
    if (RepositoryCache.FileKey.resolve(folder, FS.DETECTED) == null) {
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

  @Override
  public void repositoryDeleted(Project.NameKey name) {
    forget(name);
    engine.flatMap(RefEngine::global).ifPresent(global -> global.removed(ProjectName.of(name)));
    disk.repositoryDeleted(name);
  }

  /** Drops the open database of a project. Who uses it now goes on with it; the next one opens it anew. */
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

  /** Asks the engine for a project's figures. Its repository, and how long JGit keeps it open, are not touched. */
  void readStats(ProjectState state) {
    RefdbKey key = keys.get(state.name);
    if (key != null) {
      engine.flatMap(loaded -> loaded.stats(key.path())).ifPresent(state::keep);
    }
  }

  /** The same for all projects. */
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

  /** The memory for all repositories together; nothing without the engine. */
  Optional<RefHoldings> holdings() {
    return engine.map(RefEngine::holdings);
  }

  Optional<GlobalDecision> global() {
    return engine.flatMap(RefEngine::global);
  }

  /** The next question about a project looks at the disk; false if nobody has its repository open. */
  boolean hint(Project.NameKey name) {
    RefdbKey key = keys.get(name);
    return key != null && engine.isPresent() && engine.get().hint(key.path());
  }

  /** Does something with a project's repository if it is open, and opens none for it. */
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

  /** The state of a project, made if it is new. */
  ProjectState state(Project.NameKey name) {
    return states.computeIfAbsent(name, this::newState);
  }

  /** The state of a project if it has one, else a new one that is not kept. Callers may ask for any name. */
  ProjectState look(Project.NameKey name) {
    ProjectState known = states.get(name);
    return known != null ? known : newState(name);
  }

  private ProjectState newState(Project.NameKey name) {
    return new ProjectState(name, settings.shadows(ProjectName.of(name)));
  }

  /** The projects that were opened since the start. */
  Collection<ProjectState> states() {
    return states.values();
  }
}

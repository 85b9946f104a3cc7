package org.refdb.gerrit.refs;

import com.google.gerrit.entities.Project;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.BrokenRef;
import org.refdb.engine.EngineException;
import org.refdb.engine.NativeLibrary;
import org.refdb.engine.RefHoldings;
import org.refdb.engine.VerifyReport;
import org.refdb.jgit.RefdbDatabase;

/** Operations and figures for administrators, which the plugin offers over SSH, over REST and as metrics. */
@Singleton
public final class RefdbAdmin {
  private static final int DIFFERENCES_MAX = 100;
  private static final String LOCK = ".lock";

  private final RefdbRepositoryManager manager;

  @Inject
  RefdbAdmin(RefdbRepositoryManager manager) {
    this.manager = manager;
  }

  /** The version of the lib module. */
  public String version() {
    return NativeLibrary.version();
  }

  /**
   * Checks the version of the plugin; called when the plugin starts.
   *
   * @throws IllegalStateException if the plugin is of another version
   */
  public static void checkPlugin(String pluginVersion) {
    String version = NativeLibrary.version();
    if (!pluginVersion.equals(version)) {
      throw new IllegalStateException(
          "the refdb plugin is of version " + pluginVersion + ", but lib/refdb-gerrit.jar of version " + version
              + ": run `java -jar refdb-gerrit.jar install SITE` with one of them and restart Gerrit");
    }
  }

  /** Returns whether the engine could be loaded at all. */
  public boolean isEngineLoaded() {
    return manager.isEngineLoaded();
  }

  /** Figures of one project. */
  public ProjectStat stat(Project.NameKey project) {
    return stat(manager.look(project));
  }

  private ProjectStat stat(ProjectState state) {
    manager.readStats(state);
    return ProjectStat.of(state);
  }

  /** Memory and files held for all projects together; nothing if the engine could not be loaded. */
  public Optional<RefHoldings> holdings() {
    return manager.holdings();
  }

  /** The global ref database of native mode; nothing without native mode. */
  public Optional<GlobalDecision> global() {
    return manager.global();
  }

  /**
   * Settles the undecided updates of native mode in a project, except those that a process is still running.
   *
   * @param isDry whether to report only what would be done
   * @param said receives a line for each update
   */
  public GlobalSettled settleGlobal(Project.NameKey project, boolean isDry, Consumer<String> said) throws IOException {
    Optional<GlobalDecision> global = manager.global();
    if (global.isEmpty()) {
      return GlobalSettled.NONE;
    }
    try (Repository repository = manager.openRepository(project)) {
      RefdbDatabase refs = (RefdbDatabase) served(project, repository).engineRefs();
      return global.get().settle(ProjectName.of(project), refs.view(), isDry, said);
    }
  }

  /** Figures of every project that was opened, or at least tried, since the start, or had its shadow mode switched. */
  public List<ProjectStat> stats() {
    manager.readStats();
    return manager.states().stream().map(ProjectStat::of).sorted(Comparator.comparing(ProjectStat::project)).toList();
  }

  /**
   * Figures of the projects with metrics of their own, by name: the busiest since the start, and those that
   * gerrit.config names. This bounds the number of time series of a monitoring system.
   */
  public List<ProjectStat> notable() {
    Settings settings = manager.settings();
    List<ProjectStat> all = stats();
    Set<String> busiest =
        all.stream()
            .sorted(Comparator.comparingLong(ProjectStat::uses).reversed())
            .limit(settings.metricsProjectsMax())
            .map(ProjectStat::project)
            .collect(Collectors.toSet());
    return all.stream()
        .filter(stat -> busiest.contains(stat.project()) || settings.metricsProjects().contains(stat.project()))
        .toList();
  }

  /**
   * Compares the engine's refs of a project with the disk without blocking anyone: first by the engine itself, then
   * with JGit's reading.
   *
   * @return what differs; of the differences that the comparison with JGit finds, at most {@value #DIFFERENCES_MAX}
   * @throws IOException if the project cannot be opened or read, or refdb does not serve it
   */
  public Verified verify(Project.NameKey project) throws IOException {
    try (Repository repository = manager.openRepository(project);
        FileRepository plain = new FileRepository(repository.getDirectory())) {
      RefdbRepository ours = served(project, repository);
      VerifyReport found = ours.verify();
      Set<String> known = found.broken().stream().map(BrokenRef::name).collect(Collectors.toSet());
      List<String> differences = new ArrayList<>();
      for (VerifyReport.Difference difference : found.differences()) {
        known.add(difference.name());
        differences.add(difference.line());
      }
      differences.addAll(Verification.compare(plain.getRefDatabase(), ours.engineRefs(), known, DIFFERENCES_MAX));
      return new Verified(
          differences, found.broken().stream().map(ref -> ref.name() + " is broken: " + ref.text()).toList());
    }
  }

  /**
   * Deletes a ref whose file is corrupt or cannot be read. Gerrit itself does not see such a ref.
   *
   * @return false, without having done anything, if the ref is not broken or its name is that of a lock file
   */
  public boolean deleteBroken(Project.NameKey project, String ref) throws IOException {
    if (ref.endsWith(LOCK)) {
      return false; // a lock belongs to a running writer
    }
    try (Repository repository = manager.openRepository(project)) {
      RefDatabase refs = served(project, repository).engineRefs();
      try {
        refs.exactRef(ref);
        return false;
      } catch (EngineException e) {
        if (e.kind() != EngineException.Kind.BROKEN_REF || !e.refName().equals(Optional.of(ref))) {
          throw e;
        }
      }
      RefUpdate update = refs.newUpdate(ref, true);
      update.setExpectedOldObjectId(ObjectId.zeroId()); // a ref that was written again meanwhile is kept
      update.setForceUpdate(true);
      RefUpdate.Result result = update.delete();
      if (result != RefUpdate.Result.FORCED) {
        throw new IOException("cannot delete " + ref + ": " + result);
      }
      return true;
    }
  }

  /**
   * Drops the memory of a project, so that its next user reads it again. A project that refdb could not serve is tried
   * again.
   */
  public void flush(Project.NameKey project) {
    manager.forget(project);
  }

  /**
   * Reads all refs of a project into memory.
   *
   * @return the number of refs
   */
  public int warm(Project.NameKey project) throws IOException {
    try (Repository repository = manager.openRepository(project)) {
      Collection<Ref> refs = served(project, repository).engineRefs().getRefs();
      return refs.size();
    }
  }

  /**
   * Turns shadow mode on or off, which has no effect in native mode. In shadow mode JGit answers; refdb answers too,
   * and differences are counted and logged.
   */
  public void shadow(Project.NameKey project, boolean on) {
    ProjectState state = manager.state(project);
    state.shadow = on;
    if (!on) {
      manager.ifOpen(project, RefdbRepository::endShadow);
    }
  }

  /**
   * Makes the engine check the disk before it relies on its memory of this project again. Plugins that learn of other
   * nodes' updates call this too.
   */
  public void refresh(Project.NameKey project) {
    if (manager.hint(project)) {
      manager.state(project).refreshed.increment();
    }
  }

  /** Makes the engine check the disk for every project before it relies on its memory again. */
  void refreshAll() {
    manager.states().forEach(state -> refresh(state.name));
  }

  private static RefdbRepository served(Project.NameKey project, Repository repository) throws IOException {
    if (repository instanceof RefdbRepository ours) {
      return ours;
    }
    throw new IOException("refdb does not serve project " + project + ": Gerrit's error_log says why");
  }
}

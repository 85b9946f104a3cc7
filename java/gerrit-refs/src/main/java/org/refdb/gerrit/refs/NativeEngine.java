package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.refdb.engine.EngineException;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.RefHoldings;
import org.refdb.engine.RefStats;
import org.refdb.engine.EngineViews;
import org.refdb.engine.VerifyReport;
import org.refdb.jgit.RefdbDatabase;
import org.refdb.jgit.RequestRefCache;

/** The native engine, with one memory limit for all repositories of the process. */
final class NativeEngine implements RefEngine {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final EngineViews views;
  private final Supplier<RequestRefCache> request;

  private final Optional<GlobalDecision> global;

  NativeEngine(Settings settings, Optional<GlobalDecision> global) throws EngineLoadException {
    this.global = global;
    this.views = EngineViews.open(settings.memoryBytes(), settings.openFiles());
    this.request = settings.perRequest() ? RequestScope::refs : () -> null;
    long openFilesMax = views.holdings().openFilesMax();
    if (settings.openFiles() > openFilesMax) {
      logger.atWarning().log(
          "refdb.openFiles is %d in gerrit.config, but refdb keeps at most %d files open: no more than half of what the"
              + " limit of this process (ulimit -n) allows",
          settings.openFiles(), openFilesMax);
    }
  }

  @Override
  public RefDatabase open(FileRepository repository) throws IOException {
    String project = repository instanceof RefdbRepository ours ? ProjectName.of(ours.state().name) : "";
    if (global.isEmpty() || !global.get().has(project)) {
      return RefdbDatabase.open(views, repository, request);
    }
    GlobalMode.mark(repository.getDirectory().toPath());
    RefdbDatabase refs = RefdbDatabase.open(views, repository, request, global.get().committer(project, repository));
    try {
      global.get().opened(project, refs.view());
    } catch (IOException e) {
      logger.atWarning().withCause(e).log(
          "what an earlier process left undecided in project %s is not settled yet: updates of these refs are refused",
          project);
    }
    return refs;
  }

  @Override
  public Optional<GlobalDecision> global() {
    return global;
  }

  @Override
  public void forget(Path gitDir) {
    views.forget(gitDir);
  }

  @Override
  public Optional<RefStats> stats(Path gitDir) {
    return views.stats(gitDir);
  }

  @Override
  public Map<Path, RefStats> stats() throws EngineException {
    return views.stats();
  }

  @Override
  public RefHoldings holdings() {
    return views.holdings();
  }

  @Override
  public boolean hint(Path gitDir) {
    return views.hint(gitDir);
  }

  @Override
  public List<Set<Ref>> tips(RefDatabase refs, List<? extends ObjectId> ids) throws IOException {
    return ((RefdbDatabase) refs).tipsOf(ids);
  }

  @Override
  public VerifyReport verify(RefDatabase refs) throws EngineException {
    return ((RefdbDatabase) refs).view().verify();
  }

  @Override
  public void flush(RefDatabase refs) throws EngineException {
    ((RefdbDatabase) refs).view().flush();
  }
}

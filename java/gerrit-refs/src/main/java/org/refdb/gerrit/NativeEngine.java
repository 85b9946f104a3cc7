package org.refdb.gerrit;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.RefDatabase;
import org.refdb.engine.EngineException;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.RefStats;
import org.refdb.engine.RefViews;
import org.refdb.engine.VerifyReport;
import org.refdb.jgit.RefdbDatabase;

/** The native engine, with one memory limit for all repositories of the process. */
final class NativeEngine implements RefEngine {
  private final RefViews views;

  NativeEngine(Settings settings) throws EngineLoadException {
    this.views = RefViews.open(settings.memoryBytes());
  }

  @Override
  public RefDatabase open(FileRepository repository) throws IOException {
    return RefdbDatabase.open(views, repository);
  }

  @Override
  public void forget(Path gitDir) {
    views.forget(gitDir);
  }

  @Override
  public Optional<RefStats> stats(RefDatabase refs) throws EngineException {
    return Optional.of(((RefdbDatabase) refs).view().stats());
  }

  @Override
  public Findings verify(RefDatabase refs) throws EngineException {
    VerifyReport report = ((RefdbDatabase) refs).view().verify();
    return new Findings(
        report.refs(),
        report.differences().stream()
            .map(found -> found.name() + ": on disk " + found.disk() + ", refdb has " + found.view())
            .toList());
  }

  @Override
  public void flush(RefDatabase refs) throws EngineException {
    ((RefdbDatabase) refs).view().flush();
  }
}

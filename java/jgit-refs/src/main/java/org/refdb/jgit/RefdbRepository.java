package org.refdb.jgit;

import java.io.File;
import java.io.IOException;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.BaseRepositoryBuilder;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;
import org.refdb.engine.EngineViews;

/**
 * A repository on disk whose refs the engine reads and writes.
 *
 * <p>JGit nevertheless creates its own ref database for the repository. That one is closed at once and not used
 * again.
 */
public final class RefdbRepository extends FileRepository {
  private final RefdbDatabase refs;

  private RefdbRepository(BaseRepositoryBuilder<?, ?> options, EngineViews views) throws IOException {
    super(options);
    super.getRefDatabase().close();
    refs = RefdbDatabase.open(views, this);
  }

  /**
   * Opens a repository.
   *
   * @param gitDir the repository's folder
   */
  public static RefdbRepository open(File gitDir, EngineViews views) throws IOException {
    return new RefdbRepository(new FileRepositoryBuilder().setGitDir(gitDir).setMustExist(true).setup(), views);
  }

  @Override
  public RefDatabase getRefDatabase() {
    // FileRepository's constructor calls this method too, before the field is set.
    return refs != null ? refs : super.getRefDatabase();
  }

  @Override
  protected void doClose() {
    refs.close();
    super.doClose();
  }
}

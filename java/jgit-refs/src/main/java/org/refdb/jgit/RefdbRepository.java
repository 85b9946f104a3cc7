package org.refdb.jgit;

import java.io.File;
import java.io.IOException;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.BaseRepositoryBuilder;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;
import org.refdb.engine.EngineViews;

/**
 * A repository on disk whose refs are the engine's.
 *
 * <p>JGit makes a ref database of its own for it all the same. It is not asked, and lets go of its files.
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
   * @param gitDir its folder
   */
  public static RefdbRepository open(File gitDir, EngineViews views) throws IOException {
    return new RefdbRepository(new FileRepositoryBuilder().setGitDir(gitDir).setMustExist(true).setup(), views);
  }

  @Override
  public RefDatabase getRefDatabase() {
    // FileRepository's constructor asks too.
    return refs != null ? refs : super.getRefDatabase();
  }

  @Override
  protected void doClose() {
    refs.close();
    super.doClose();
  }
}

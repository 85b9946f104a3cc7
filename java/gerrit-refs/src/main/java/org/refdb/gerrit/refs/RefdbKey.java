package org.refdb.gerrit.refs;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import org.eclipse.jgit.errors.ConfigInvalidException;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.storage.file.FileBasedConfig;
import org.eclipse.jgit.util.FS;

/** The key of a project's repository in JGit's cache, which opens repositories with refdb through this key. */
final class RefdbKey extends RepositoryCache.FileKey {
  private final File head;
  private final ProjectState state;
  private final RefEngine engine;

  RefdbKey(File gitDir, ProjectState state, RefEngine engine) {
    super(gitDir, FS.DETECTED);
    this.head = new File(getFile(), Constants.HEAD);
    this.state = state;
    this.engine = engine;
  }

  /**
   * Returns whether the repository still exists. Callers check this on each use, because JGit's cache would go on
   * returning a repository that was deleted.
   *
   * @param perRequest whether it is enough that the repository was there at an earlier check in this thread's request
   */
  boolean isThere(boolean perRequest) {
    return perRequest ? RequestScope.isThere(head) : head.exists();
  }

  /** The repository's folder, as it is passed to the engine. */
  Path path() {
    return getFile().toPath().toAbsolutePath();
  }

  /** Returns whether the configuration of the repository says that its refs are reftables. */
  boolean isReftable() throws IOException {
    FileBasedConfig config = new FileBasedConfig(null, new File(getFile(), Constants.CONFIG), FS.DETECTED);
    try {
      config.load();
    } catch (ConfigInvalidException e) {
      throw new IOException("cannot read " + config.getFile(), e);
    }
    return Constants.REFTABLE.equalsIgnoreCase(config.getString("extensions", null, "refStorage"));
  }

  ProjectState state() {
    return state;
  }

  RefEngine engine() {
    return engine;
  }

  @Override
  public Repository open(boolean mustExist) throws IOException {
    if (mustExist && !isGitRepository(getFile(), FS.DETECTED)) {
      throw new RepositoryNotFoundException(getFile());
    }
    return new RefdbRepository(getFile(), state, engine);
  }
}

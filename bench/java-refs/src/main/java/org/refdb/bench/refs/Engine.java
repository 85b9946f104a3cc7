package org.refdb.bench.refs;

import java.io.File;
import java.io.IOException;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.EngineViews;
import org.refdb.jgit.RefdbRepository;

/** Who answers questions about refs, and in which format the refs are. */
public enum Engine {
  /** JGit's RefDirectory. */
  JGIT_FILES,
  /** JGit's FileReftableDatabase. */
  JGIT_REFTABLE,
  /** refdb's engine on loose refs and packed-refs. */
  REFDB_FILES,
  /** refdb's engine on reftables. */
  REFDB_REFTABLE;

  private static final long MEMORY_BYTES = 56L << 20;
  private static EngineViews views;

  boolean isReftable() {
    return this == JGIT_REFTABLE || this == REFDB_REFTABLE;
  }

  /** Opens a repository as a server does. */
  Repository open(File gitDir) throws IOException {
    if (this == JGIT_FILES || this == JGIT_REFTABLE) {
      return new FileRepository(gitDir);
    }
    return RefdbRepository.open(gitDir, views());
  }

  /** Drops refdb's cache of a repository in this process, so that opening the repository begins anew; JGit has none. */
  void forget(File gitDir) {
    if (this == REFDB_FILES || this == REFDB_REFTABLE) {
      views().forget(gitDir.toPath());
    }
  }

  private static synchronized EngineViews views() {
    if (views == null) {
      try {
        views = EngineViews.open(MEMORY_BYTES, 0);
      } catch (EngineLoadException e) {
        throw new IllegalStateException("the engine cannot be loaded", e);
      }
    }
    return views;
  }
}

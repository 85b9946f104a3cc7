package org.refdb.gerrit.refs;

import java.io.File;
import java.io.IOException;
import java.util.Optional;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.util.FS;

/** Looks up a repository in JGit's cache without opening it if it is not there. */
final class CachedKey extends RepositoryCache.FileKey {
  private CachedKey(File gitDir) {
    super(gitDir, FS.DETECTED);
  }

  /** Returns the cached repository with its use count incremented; the caller closes it. */
  static Optional<Repository> find(File gitDir) {
    try {
      return Optional.of(RepositoryCache.open(new CachedKey(gitDir), true));
    } catch (NotCached e) {
      return Optional.empty();
    } catch (IOException e) {
      throw new IllegalStateException("a look-up opens nothing", e);
    }
  }

  /**
   * Removes the repository from the cache. Its last user closes it, or it is closed at once if it has none. JGit's
   * {@code unregister} would leave an unused one open for ever, and its {@code close} would close one that is in use.
   */
  static void evict(File gitDir) {
    find(gitDir)
        .ifPresent(
            repository -> {
              RepositoryCache.unregister(repository);
              repository.close();
            });
  }

  @Override
  public Repository open(boolean mustExist) throws IOException {
    throw new NotCached();
  }

  private static final class NotCached extends IOException {
    private static final long serialVersionUID = 1L;

    NotCached() {
      super("not in the cache of repositories");
    }

    @Override
    public Throwable fillInStackTrace() {
      return this;
    }
  }
}

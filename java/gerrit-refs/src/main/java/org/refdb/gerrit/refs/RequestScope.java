package org.refdb.gerrit.refs;

import com.google.gerrit.server.cache.PerThreadCache;
import java.io.File;
import org.refdb.jgit.RequestRefCache;

/**
 * Caches answers for the duration of a Gerrit request, on the thread that serves it, for {@code
 * core.usePerRequestRefCache}.
 */
final class RequestScope {
  private static final PerThreadCache.Key<RequestRefCache> REFS = PerThreadCache.Key.create(RequestRefCache.class);

  /** Records that a file exists. */
  private record There() {}

  private RequestScope() {}

  /** Returns the refs that were read in the request of this thread; null outside of a request. */
  static RequestRefCache refs() {
    return PerThreadCache.get() == null ? null : PerThreadCache.getOrCompute(REFS, RequestRefCache::new);
  }

  /** Returns whether a file exists, or existed at an earlier check in this request. */
  static boolean isThere(File file) {
    // That a file is missing is not cached.
    PerThreadCache.Key<There> key = PerThreadCache.Key.create(There.class, file);
    return PerThreadCache.getOrCompute(key, () -> file.exists() ? new There() : null) != null;
  }
}

package org.refdb.gerrit.refs;

import com.google.gerrit.server.cache.PerThreadCache;
import java.io.File;
import org.refdb.jgit.AskedRefs;

/** What a request of Gerrit's was told, kept with the thread that serves it, for {@code core.usePerRequestRefCache}. */
final class RequestScope {
  private static final PerThreadCache.Key<AskedRefs> REFS = PerThreadCache.Key.create(AskedRefs.class);

  /** That a file is there. */
  private record There() {}

  private RequestScope() {}

  /** The refs that this thread's request was told of; null outside of a request. */
  static AskedRefs refs() {
    return PerThreadCache.get() == null ? null : PerThreadCache.getOrCompute(REFS, AskedRefs::new);
  }

  /** Whether a file is there, or was at this request's first look. */
  static boolean isThere(File file) {
    // That one is missing is not kept.
    PerThreadCache.Key<There> key = PerThreadCache.Key.create(There.class, file);
    return PerThreadCache.getOrCompute(key, () -> file.exists() ? new There() : null) != null;
  }
}

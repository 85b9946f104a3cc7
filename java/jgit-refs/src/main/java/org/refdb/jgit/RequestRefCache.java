package org.refdb.jgit;

import java.io.IOException;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.lib.Ref;

/**
 * A cache of at most 4,096 single refs that a request has read, so that the disk is not checked when the request
 * reads them again. A request that only reads sees a cached ref as it was at the first read, but sees changes that
 * are made through the same {@link RefdbDatabase} at once. Once a request is about to write, its reads no longer use
 * the cache. Not safe for use by several threads.
 */
public final class RequestRefCache {
  /** Maximum number of cached refs. A request that reads more than this rarely reads one twice. */
  static final int REFS_MAX = 4096;

  private final Map<RefdbDatabase, Told> told = new IdentityHashMap<>();
  private int kept;
  private boolean isWriting;

  /** The cached refs of one database, valid until refs are changed through that database, or it is refreshed. */
  private record Told(long changes, Map<String, Optional<Ref>> refs) {}

  /** Returns a ref from the cache, or reads it if it is not cached or refs were changed through the database since. */
  Ref ref(RefdbDatabase refs, long changes, String name) throws IOException {
    Told known = told.get(refs);
    if (known != null && known.changes != changes) {
      kept -= told.remove(refs).refs.size();
      known = null;
    }
    Optional<Ref> answer = known == null ? null : known.refs.get(name);
    if (answer == null) {
      answer = Optional.ofNullable(refs.readRef(name));
      if (!isWriting && kept < REFS_MAX) {
        told.computeIfAbsent(refs, repository -> new Told(changes, new HashMap<>())).refs.put(name, answer);
        kept++;
      }
    }
    return answer.orElse(null);
  }

  /** Clears the cache and stops caching, because the request is about to write. */
  void write() {
    isWriting = true;
    told.clear();
  }
}

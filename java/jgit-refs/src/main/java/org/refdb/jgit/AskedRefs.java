package org.refdb.jgit;

import java.io.IOException;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.lib.Ref;

/**
 * The single refs that a request was told of, to be told again without a look at the disk. A request that reads sees a
 * ref as it was at its first look. It sees changes by this process at once. Once a request is about to write, each of
 * its answers is proved. For one thread.
 */
public final class AskedRefs {
  /** A request that asks for more refs seldom asks for one twice. */
  static final int REFS_MAX = 4096;

  private final Map<RefdbDatabase, Told> told = new IdentityHashMap<>();
  private int kept;
  private boolean isWriting;

  /** The refs of one repository after a number of changes by this process. */
  private record Told(long changes, Map<String, Optional<Ref>> refs) {}

  /** A ref as the request was told of it, unless this process has made changes since; else as it is. */
  Ref ref(RefdbDatabase refs, long changes, String name) throws IOException {
    Told known = told.get(refs);
    if (known != null && known.changes != changes) {
      kept -= told.remove(refs).refs.size();
      known = null;
    }
    Optional<Ref> answer = known == null ? null : known.refs.get(name);
    if (answer == null) {
      answer = Optional.ofNullable(refs.provedRef(name));
      if (!isWriting && kept < REFS_MAX) {
        told.computeIfAbsent(refs, repository -> new Told(changes, new HashMap<>())).refs.put(name, answer);
        kept++;
      }
    }
    return answer.orElse(null);
  }

  /** The request writes: nothing that it was told counts any more. */
  void write() {
    isWriting = true;
    told.clear();
  }
}

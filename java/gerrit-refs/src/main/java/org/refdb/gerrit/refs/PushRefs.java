package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.entities.Project;
import com.google.gerrit.entities.RefNames;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.git.ReceivePackInitializer;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.transport.ReceivePack;

/**
 * Lists for a push only the refs that it is told of, which are all but those of changes.
 *
 * <p>Gerrit lists all refs, makes a map of them, and then drops those of changes, of which there are most. It keeps the
 * map to look refs up by name and by object during the push. If {@code receive.enableInMemoryRefCache} is false it does
 * not; that is for ref databases that do that fast. So with that setting nobody misses refs that are not listed here.
 * With the default this does nothing.
 */
@Singleton
final class PushRefs implements ReceivePackInitializer {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** What Gerrit's own filter of a push's refs takes away. */
  private static final Set<String> HIDDEN = Set.of(RefNames.REFS_CHANGES, RefNames.REFS_CACHE_AUTOMERGE);

  private final RefdbRepositoryManager manager;
  private final boolean isOn;

  @Inject
  PushRefs(RefdbRepositoryManager manager, @GerritServerConfig Config config) {
    this.manager = manager;
    this.isOn = !config.getBoolean("receive", "enableInMemoryRefCache", true);
  }

  @Override
  public void init(Project.NameKey project, ReceivePack push) {
    if (!isOn || push.getAdvertisedRefs() != null) {
      return;
    }
    try (Repository repository = manager.openRepository(project)) {
      if (!(repository instanceof RefdbRepository)) {
        return;
      }
      // The push's own repository knows what the user may see, but cannot leave refs out before it has listed them.
      RefDatabase visible = push.getRepository().getRefDatabase();
      Map<String, Ref> refs = new HashMap<>();
      for (String prefix : prefixes(repository.getRefDatabase())) {
        for (Ref ref : visible.getRefsByPrefix(prefix)) {
          refs.put(ref.getName(), ref);
        }
      }
      push.setAdvertisedRefs(refs, Set.of());
    } catch (IOException e) {
      logger.atWarning().withCause(e).log("cannot list the refs of %s for a push; Gerrit lists them", project);
    }
  }

  /** Prefixes that all refs but the hidden ones begin with: the folders below refs, and what lies in none. */
  private static Set<String> prefixes(RefDatabase refs) throws IOException {
    Set<String> prefixes = new TreeSet<>();
    for (Ref ref : refs.getRefsByPrefixWithExclusions(RefDatabase.ALL, HIDDEN)) {
      String name = ref.getName();
      int end = name.startsWith(RefNames.REFS) ? name.indexOf('/', RefNames.REFS.length()) : -1;
      prefixes.add(end < 0 ? name : name.substring(0, end + 1));
    }
    return prefixes;
  }
}

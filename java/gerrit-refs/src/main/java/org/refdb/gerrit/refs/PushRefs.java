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
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.transport.ReceivePack;

/**
 * Advertises all refs to a push except those of changes and of cached merges, if {@code receive.enableInMemoryRefCache}
 * is false.
 *
 * <p>Gerrit lists all refs, builds a map of them, and then drops these two kinds, which are most refs. It keeps the map
 * to look up refs by name and by object during the push unless the setting is false, which is meant for ref databases
 * with fast look-ups. With false no one needs refs that are not listed here; with the default this class does nothing.
 */
@Singleton
final class PushRefs implements ReceivePackInitializer {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** The refs that Gerrit's filter removes from a push's refs. */
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
      // The push's own repository knows which refs are visible to the user, but can leave refs out only after listing
      // all of them.
      RefDatabase visible = push.getRepository().getRefDatabase();
      Map<String, Ref> refs = new HashMap<>();
      for (String place : places(repository.getRefDatabase())) {
        for (Ref ref : at(place, visible)) {
          refs.put(ref.getName(), ref);
        }
      }
      push.setAdvertisedRefs(refs, Set.of());
    } catch (IOException e) {
      logger.atWarning().withCause(e).log("cannot list the refs of %s for a push; Gerrit lists them", project);
    }
  }

  /** Lists a folder, or looks up a ref that is in none, because as a prefix {@code refs/c} would list all changes. */
  private static List<Ref> at(String place, RefDatabase refs) throws IOException {
    if (place.endsWith("/")) {
      return refs.getRefsByPrefix(place);
    }
    Ref ref = refs.exactRef(place);
    return ref == null ? List.of() : List.of(ref);
  }

  /** The places of all refs except the hidden ones: the folders below {@code refs/}, and the refs in none of them. */
  private static Set<String> places(RefDatabase refs) throws IOException {
    Set<String> places = new TreeSet<>();
    for (Ref ref : refs.getRefsByPrefixWithExclusions(RefDatabase.ALL, HIDDEN)) {
      String name = ref.getName();
      int end = name.startsWith(RefNames.REFS) ? name.indexOf('/', RefNames.REFS.length()) : -1;
      places.add(end < 0 ? name : name.substring(0, end + 1));
    }
    return places;
  }
}

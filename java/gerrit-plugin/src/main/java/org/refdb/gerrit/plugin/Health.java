package org.refdb.gerrit.plugin;

import com.google.gerrit.server.config.GerritServerConfig;
import com.google.inject.Inject;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.lib.Config;
import org.refdb.engine.NativeLibrary;
import org.refdb.engine.ServerNote;
import org.refdb.engine.ServerNote.Half;
import org.refdb.gerrit.RefdbModule;
import org.refdb.gerrit.cache.RefdbCacheModule;

/** Whether this server uses the refdb that gerrit.config names. What it finds is the same until the next restart. */
final class Health {
  private static final Map<Half, Class<?>> MODULES =
      Map.of(Half.REFS, RefdbModule.class, Half.CACHES, RefdbCacheModule.class);

  private final Map<Half, HalfStatus> halves = new EnumMap<>(Half.class);

  /** Of refs or caches: whether refdb is in use, and if not, why. */
  record HalfStatus(boolean inUse, String text) {}

  /** What REST tells; a half that is not configured is null. */
  record Report(boolean good, String version, HalfStatus refs, HalfStatus caches) {}

  @Inject
  Health(@GerritServerConfig Config config) {
    List<String> modules = List.of(config.getStringList("gerrit", null, "installModule"));
    MODULES.forEach(
        (half, module) -> {
          if (modules.contains(module.getName())) {
            halves.put(half, status(ServerNote.own(half)));
          }
        });
  }

  private static HalfStatus status(Optional<ServerNote> note) {
    return note.map(found -> new HalfStatus(found.inUse(), found.text()))
        .orElse(new HalfStatus(false, "its module did not start with this server: restart Gerrit"));
  }

  /** The halves of refdb that are configured. */
  Map<Half, HalfStatus> halves() {
    return halves;
  }

  boolean isGood() {
    return halves.values().stream().allMatch(HalfStatus::inUse);
  }

  Report report() {
    return new Report(isGood(), NativeLibrary.version(), halves.get(Half.REFS), halves.get(Half.CACHES));
  }
}

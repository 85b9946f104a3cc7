package org.refdb.gerrit.plugin;

import com.google.gerrit.server.config.GerritServerConfig;
import com.google.inject.Inject;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.eclipse.jgit.lib.Config;
import org.refdb.engine.NativeLibrary;
import org.refdb.engine.ServerNote;
import org.refdb.engine.ServerNote.Half;
import org.refdb.gerrit.cache.RefdbCacheModule;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;
import org.refdb.gerrit.refs.RefdbModule;

/** Determines whether this server uses the refdb that gerrit.config names. */
final class Health {
  private static final Map<Half, Class<?>> MODULES =
      Map.of(Half.REFS, RefdbModule.class, Half.CACHES, RefdbCacheModule.class);

  private final Set<Half> configured = EnumSet.noneOf(Half.class);

  /** Whether a half of refdb, refs or caches, is in use, and if not, why. */
  record HalfStatus(boolean inUse, String text) {}

  /** The result of the REST endpoint; a half that is not configured is null. Warnings do not make it bad. */
  record Report(boolean good, String version, HalfStatus refs, HalfStatus caches, List<String> warnings) {}

  /** Null where only the caches are refdb's. */
  @Inject(optional = true)
  private RefdbAdmin admin;

  @Inject
  Health(@GerritServerConfig Config config) {
    List<String> modules = List.of(config.getStringList("gerrit", null, "installModule"));
    MODULES.forEach(
        (half, module) -> {
          if (modules.contains(module.getName())) {
            configured.add(half);
          }
        });
  }

  /** The halves of refdb that are configured. */
  Set<Half> configured() {
    return configured;
  }

  /** The state of a half. Plugins start before the server has recorded everything, so it is read each time. */
  HalfStatus of(Half half) {
    return ServerNote.own(half)
        .map(note -> new HalfStatus(note.inUse(), note.text()))
        .orElse(new HalfStatus(false, "its module did not start with this server: restart Gerrit"));
  }

  Report report() {
    boolean isGood = configured.stream().allMatch(half -> of(half).inUse());
    List<String> warnings = admin == null ? List.of() : warnings(admin.stats());
    return new Report(
        isGood, NativeLibrary.version(), ifConfigured(Half.REFS), ifConfigured(Half.CACHES), warnings);
  }

  /** Returns what should be changed although refdb is in use, without project names, which not every caller may see. */
  static List<String> warnings(List<ProjectStat> stats) {
    long trusting = stats.stream().filter(ProjectStat::isTrustIgnored).count();
    return trusting == 0
        ? List.of()
        : List.of(
            "core.trustStat, or a setting for one kind of refs, is `always` in "
                + trusting
                + " of the projects used so far, which are on a network file system: JGit without refdb can show refs of"
                + " other machines late there, up to 60 s by default; refdb asks the file server nevertheless. Remove"
                + " the setting, or set it to `after_open`");
  }

  private HalfStatus ifConfigured(Half half) {
    return configured.contains(half) ? of(half) : null;
  }
}

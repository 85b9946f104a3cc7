package org.refdb.jgit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.eclipse.jgit.errors.ConfigInvalidException;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.CoreConfig;
import org.eclipse.jgit.lib.CoreConfig.TrustStat;
import org.eclipse.jgit.util.SystemReader;
import org.refdb.engine.Planted;
import org.refdb.engine.EngineViewSettings;
import org.refdb.engine.EngineViewSettings.Sync;
import org.refdb.engine.EngineViewSettings.Trust;

/**
 * Translates a repository's configuration, as JGit reads it, for the engine.
 *
 * <p>JGit also reads files that the engine does not read: that of the user and the site's {@code jgit.config}. The
 * settings there that concern the engine are therefore passed on. The system's file {@code /etc/gitconfig} is read by
 * both.
 */
final class ViewSettings {
  /**
   * The setting {@code refdb.trustMillis}: for how many milliseconds an answer is repeated without checking the disk.
   * The default is 0.
   */
  private static final String BELIEVE_SECTION = "refdb";

  private static final String BELIEVE_KEY = "trustMillis";

  /** Settings that are passed on to the engine if they are set outside the repository and not in it. */
  private static final String[][] PASSED_ON = {
    {"core", "fsync"},
    {"core", "fsyncMethod"},
    {"core", "logAllRefUpdates"},
    {"core", "sharedRepository"},
    {"core", "filesRefLockTimeout"},
    {"core", "packedRefsTimeout"},
    {"reftable", "blockSize"},
    {"reftable", "restartInterval"},
    {"reftable", "indexObjects"},
    {"reftable", "geometricFactor"},
    {"reftable", "lockTimeout"},
    {"refdb", "smallBatches"},
    {"refdb", "looseRefs"},
    {"refdb", "unsafeStorage"},
  };

  /** Settings that say whether git packs refs by itself, which git does not look for in JGit's own file. */
  private static final String[][] OF_GIT = {{"gc", null, "packRefs"}, {"maintenance", "pack-refs", "enabled"}};

  private ViewSettings() {}

  static EngineViewSettings of(Config config) {
    CoreConfig core = config.get(CoreConfig.KEY);
    return new EngineViewSettings(
        trust(core.getTrustPackedRefsStat()),
        trust(core.getTrustLooseRefStat()),
        trust(core.getTrustTablesListStat()),
        isAlwaysSet(config),
        Math.max(0, config.getLong(BELIEVE_SECTION, BELIEVE_KEY, Planted.ON && Planted.is("refs-19") ? 60_000 : 0)),
        sync(config),
        passedOn(config));
  }

  private static Trust trust(TrustStat trust) {
    return switch (trust) {
      case AFTER_OPEN -> Trust.AFTER_OPEN;
      case NEVER -> Trust.NEVER;
      default -> Trust.ALWAYS;
    };
  }

  /** Returns whether a setting says {@code always} for some kind of refs, as opposed to the default. */
  private static boolean isAlwaysSet(Config config) {
    String common = config.getString("core", null, "trustStat");
    return Stream.of("trustPackedRefsStat", "trustLooseRefStat", "trustTablesListStat")
        .map(key -> config.getString("core", null, key))
        .map(own -> own == null || own.equalsIgnoreCase(TrustStat.INHERIT.name()) ? common : own)
        .anyMatch(TrustStat.ALWAYS.name()::equalsIgnoreCase);
  }

  /** Returns whether refs are synced: git's setting wins over JGit's, and without either of them refs are synced. */
  private static Sync sync(Config config) {
    if (config.getString("core", null, "fsync") != null) {
      return Sync.AS_CONFIGURED;
    }
    return config.getBoolean("core", "fsyncRefFiles", true) ? Sync.YES : Sync.NO;
  }

  /**
   * Returns those settings from outside the repository that are passed on. The engine itself reads the repository's own
   * file, also when that changes later.
   */
  private static List<String> passedOn(Config config) {
    List<String> settings = new ArrayList<>();
    Config outer = config.getBaseConfig();
    for (String[] key : PASSED_ON) {
      String value = outer == null ? null : outer.getString(key[0], null, key[1]);
      if (value != null && !config.getNames(key[0], false).contains(key[1])) {
        settings.add(setting(key[0] + "." + key[1], value));
      }
    }
    for (String[] key : OF_GIT) {
      String value = ofGit(outer, key);
      if (value != null) {
        String name = key[0] + (key[1] == null ? "" : "." + key[1]) + "." + key[2];
        settings.add(setting(name, value));
      }
    }
    return settings;
  }

  /**
   * Returns a setting from the files outside the repository that take precedence over JGit's own file, all of which git
   * reads, too; null if none of them has it, or if that cannot be told.
   */
  private static String ofGit(Config outer, String[] key) {
    Config ofJgit;
    try {
      ofJgit = SystemReader.getInstance().getJGitConfig();
    } catch (IOException | ConfigInvalidException e) {
      return null; // without the setting the engine supposes that git packs refs
    }
    for (Config layer = outer; layer != null && layer != ofJgit; layer = layer.getBaseConfig()) {
      if (layer.getNames(key[0], key[1], false).contains(key[2])) {
        return layer.getString(key[0], key[1], key[2]);
      }
    }
    return null;
  }

  /**
   * Returns a setting as the engine takes it. JGit returns an empty value also for a setting without {@code =}, which
   * means true, so an empty one counts as true.
   */
  private static String setting(String name, String value) {
    return value.isEmpty() ? name : name + "=" + value;
  }
}

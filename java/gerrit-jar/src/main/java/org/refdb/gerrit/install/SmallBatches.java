package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;

/**
 * {@code refdb.smallBatches = auto} in the site's jgit.config. With it small atomic batches may become loose refs in
 * repositories where git packs no refs by itself.
 */
final class SmallBatches {
  private static final String SECTION = "refdb";
  private static final String KEY = "smallBatches";
  private static final String AUTO = "auto";

  private SmallBatches() {}

  /** Turns small batches on unless the administrator has decided. Returns whether the file changes. */
  static boolean turnOn(Site site) throws IOException {
    ConfigFile config = ConfigFile.readOrNew(site.jgitConfig());
    boolean changed = config.setUnlessSet(SECTION, KEY, AUTO);
    if (changed) {
      config.write();
    }
    return changed;
  }

  /** Reverts {@link #turnOn}. Returns whether the file changes. */
  static boolean turnOff(Site site) throws IOException {
    if (!Files.exists(site.jgitConfig())) {
      return false;
    }
    ConfigFile config = ConfigFile.read(site.jgitConfig());
    boolean changed = config.unset(SECTION, KEY);
    if (changed) {
      config.write();
    }
    return changed;
  }

  /** Returns the site's {@code refdb.smallBatches}, if jgit.config has it. */
  static Optional<String> of(Site site) throws IOException {
    List<String> values = ConfigFile.readOrNew(site.jgitConfig()).values(SECTION, KEY);
    return values.isEmpty() ? Optional.empty() : Optional.of(values.getLast());
  }
}

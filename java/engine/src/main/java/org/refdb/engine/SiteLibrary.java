package org.refdb.engine;

import java.nio.file.Path;

/** The native library of a Gerrit site: where the server, its offline programs and the installer unpack it. */
public final class SiteLibrary {
  /** The section of gerrit.config. */
  public static final String SECTION = "refdb";

  /** The setting that names the folder, below the site unless absolute. */
  public static final String KEY = "nativeDirectory";

  private static final String DEFAULT = "data/refdb";

  private SiteLibrary() {}

  /** The folder, given what gerrit.config says; null for nothing. */
  public static Path folder(Path site, String configured) {
    return site.resolve(configured == null || configured.isEmpty() ? DEFAULT : configured);
  }

  /**
   * Loads the library, unless that is done.
   *
   * @throws EngineLoadException if it cannot be used here; the message names the setting of gerrit.config
   */
  public static void load(Path folder) throws EngineLoadException {
    NativeLibrary.load(folder, "set " + SECTION + "." + KEY + " in gerrit.config to");
  }
}

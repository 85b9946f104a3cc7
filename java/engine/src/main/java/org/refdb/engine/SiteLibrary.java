package org.refdb.engine;

import java.nio.file.Path;

/** The folder in which the server, offline programs and the installer of a Gerrit site unpack the native library. */
public final class SiteLibrary {
  /** The section of gerrit.config that has refdb's settings. */
  public static final String SECTION = "refdb";

  /** The setting that names the folder, relative to the site unless it is absolute. */
  public static final String KEY = "nativeDirectory";

  private static final String DEFAULT = "data/refdb";

  private SiteLibrary() {}

  /** Returns the folder, where {@code configured} is the value in gerrit.config, or null if it is not set. */
  public static Path folder(Path site, String configured) {
    return site.resolve(configured == null || configured.isEmpty() ? DEFAULT : configured);
  }

  /**
   * Loads the library, unless it is loaded already.
   *
   * @throws EngineLoadException if the library cannot be used; the message names the setting in gerrit.config if
   *     another folder may help
   */
  public static void load(Path folder) throws EngineLoadException {
    NativeLibrary.load(folder, "set " + SECTION + "." + KEY + " in gerrit.config to");
  }
}

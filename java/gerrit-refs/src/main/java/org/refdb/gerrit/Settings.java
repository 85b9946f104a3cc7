package org.refdb.gerrit;

import org.eclipse.jgit.lib.Config;

/**
 * The section {@code [refdb]} of gerrit.config.
 *
 * @param memoryBytes what is held of all repositories together may take, off the Java heap: {@code memoryLimit}
 * @param nativeDirectory where the native library is unpacked, below the site unless absolute: {@code nativeDirectory}
 */
record Settings(long memoryBytes, String nativeDirectory) {
  private static final String SECTION = "refdb";
  private static final long MEMORY_DEFAULT = 256L << 20;
  private static final long MEMORY_MIN = 1L << 20;

  static Settings of(Config config) {
    long memory = config.getLong(SECTION, null, "memoryLimit", MEMORY_DEFAULT);
    if (memory < MEMORY_MIN) {
      throw new IllegalArgumentException(
          "refdb.memoryLimit is " + memory + " in gerrit.config: it must be at least 1m");
    }
    String folder = config.getString(SECTION, null, "nativeDirectory");
    return new Settings(memory, folder != null ? folder : "data/refdb");
  }
}

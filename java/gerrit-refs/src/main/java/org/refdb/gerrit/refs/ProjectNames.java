package org.refdb.gerrit.refs;

import java.io.File;

/**
 * Which project names may be looked up on disk: exactly those that Gerrit's {@code LocalDiskRepositoryManager} accepts,
 * as a test verifies.
 */
final class ProjectNames {
  private static final String[] FORBIDDEN = {
    "\\", "/../", "/./", "//", ".git/", "?", "%", "*", ":", "<", ">", "|", "$", "\r", "/+", "~"
  };

  private ProjectNames() {}

  /** Returns whether a project of this name can be in a repository folder. */
  static boolean isAcceptable(String name) {
    if (name.isEmpty() || name.startsWith("/") || name.endsWith("/") || name.startsWith("../")) {
      return false;
    }
    for (String part : FORBIDDEN) {
      if (name.contains(part)) {
        return false;
      }
    }
    return !new File(name).isAbsolute();
  }
}

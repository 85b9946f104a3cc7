package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The version of the Java that a site runs on. */
record JavaVersion(int feature, String where) {
  /** The first version that can load the classes of the lib module. */
  static final int FEATURE_MIN = 21;

  private static final Pattern RELEASE = Pattern.compile("^JAVA_VERSION=\"(\\d{1,4})", Pattern.MULTILINE);

  /** Returns the version of the Java in {@code container.javaHome}, or of the running Java if that is not set. */
  static JavaVersion of(String javaHome) throws InstallException {
    if (javaHome == null || javaHome.isEmpty()) {
      return new JavaVersion(Runtime.version().feature(), "the java that runs this");
    }
    Path release = Path.of(javaHome, "release");
    try {
      Matcher version = RELEASE.matcher(Files.readString(release));
      if (version.find()) {
        return new JavaVersion(Integer.parseInt(version.group(1)), "container.javaHome " + javaHome);
      }
    } catch (IOException e) {
      throw new InstallException("cannot tell the Java of container.javaHome: " + release + " cannot be read", e);
    }
    throw new InstallException("cannot tell the Java of container.javaHome: " + release + " has no JAVA_VERSION");
  }

  void check() throws InstallException {
    if (feature < FEATURE_MIN) {
      throw new InstallException(
          "refdb needs Java " + FEATURE_MIN + " or newer, " + where + " is Java " + feature
              + ": set container.javaHome in gerrit.config");
    }
  }
}

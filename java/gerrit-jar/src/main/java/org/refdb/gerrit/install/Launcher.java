package org.refdb.gerrit.install;

import java.lang.reflect.InvocationTargetException;

/**
 * Entry point of {@code java -jar refdb-gerrit.jar}. It is the only class compiled for Java 8, so that an older Java
 * reports which version is needed instead of failing to load a class.
 */
public final class Launcher {
  static final int FEATURE_MIN = 21;

  private Launcher() {}

  /** Starts the installer, or exits with 1 if this Java is too old. */
  public static void main(String[] arguments) throws Throwable {
    String refusal = refusal(System.getProperty("java.specification.version"), System.getProperty("java.home"));
    if (refusal != null) {
      System.err.println("refdb: " + refusal);
      System.exit(1);
    }
    try {
      Class.forName("org.refdb.gerrit.install.Main")
          .getMethod("main", String[].class)
          .invoke(null, (Object) arguments);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  /** Returns why a version of Java cannot run the installer, or null if it can. */
  static String refusal(String version, String home) {
    String[] parts = version.split("\\.");
    String feature = parts[0].equals("1") && parts.length > 1 ? parts[1] : parts[0];
    return Integer.parseInt(feature) >= FEATURE_MIN
        ? null
        : "this needs Java " + FEATURE_MIN + " or newer, and " + home + " is Java " + feature
            + ": run it with another, as in /usr/lib/jvm/NAME/bin/java -jar refdb-gerrit.jar; Gerrit's is"
            + " container.javaHome in gerrit.config";
  }
}

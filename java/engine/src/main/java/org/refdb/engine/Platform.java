package org.refdb.engine;

import java.io.IOException;
import java.io.InputStream;
import java.util.Locale;

/** An operating system and a processor, identified by the folder in the jar that contains the library for them. */
record Platform(String folder) {
  static final String FILE_NAME = "librefdb_jni.so";

  static Platform current() {
    return of(System.getProperty("os.name"), System.getProperty("os.arch"));
  }

  static Platform of(String system, String processor) {
    String arch =
        switch (processor.toLowerCase(Locale.ROOT)) {
          case "amd64", "x86_64", "x86-64" -> "x86_64";
          case "aarch64", "arm64" -> "aarch64";
          default -> processor;
        };
    return new Platform(system.toLowerCase(Locale.ROOT).replace(' ', '-') + "-" + arch);
  }

  /**
   * Opens the library in the jar.
   *
   * @throws EngineLoadException if the jar has no library for this platform
   */
  InputStream open() throws IOException, EngineLoadException {
    InputStream content = Platform.class.getResourceAsStream("/native/" + folder + "/" + FILE_NAME);
    if (content == null) {
      throw new EngineLoadException(
          "refdb has no native library for " + folder + ": use a jar that was built for this platform", null);
    }
    return content;
  }
}

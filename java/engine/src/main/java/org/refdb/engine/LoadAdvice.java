package org.refdb.engine;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Converts messages of the dynamic linker to advice for administrators. */
final class LoadAdvice {
  /** The oldest supported version of glibc. {@code scripts/build-java} ensures that no build needs a newer one. */
  private static final String GLIBC_MIN = "2.34";

  private LoadAdvice() {}

  /** Returns advice for the case that the library cannot be written to a folder. */
  static String ofUnpacking(IOException problem, Path folder, String howToChoose) {
    String user = System.getProperty("user.name");
    String reason =
        problem instanceof AccessDeniedException
            ? "user " + user + " may not write there" + owner(folder) + "; give it to " + user + ", or "
                + otherFolder(howToChoose)
            : problem + "; " + otherFolder(howToChoose);
    return "cannot unpack refdb's native library in " + folder + ": " + reason;
  }

  private static String owner(Path folder) {
    try {
      return ", the folder belongs to " + Files.getOwner(folder).getName();
    } catch (IOException e) {
      return ""; // it is missing, or the way to it is barred
    }
  }

  private static String otherFolder(String howToChoose) {
    return howToChoose + " another folder that can be written and allows to execute files";
  }

  /** Returns advice for the case that the dynamic linker refuses the library. */
  static String of(String linkerMessage, Path file, Platform platform, String howToChoose) {
    String said = linkerMessage == null ? "" : linkerMessage;
    String reason;
    if (said.contains("failed to map segment") || said.contains("Operation not permitted")) {
      reason = "the file system of that folder does not allow to execute files (mounted noexec?); "
          + otherFolder(howToChoose);
    } else if (said.contains("GLIBC_")) {
      reason = "this system's C library is older than glibc " + GLIBC_MIN + ", which refdb needs";
    } else if (said.contains("libc.musl") || said.contains("ld-musl") || said.contains("ld-linux")) {
      reason = "this system's C library is not glibc, which refdb's library needs";
    } else if (said.contains("wrong ELF class")
        || said.contains("invalid ELF header")
        || said.contains("wrong architecture")
        || said.contains("Possible cause: can't load")) { // added by Java; glibc says only that there is no such file
      reason = "it is not made for this processor (" + platform.folder() + ")";
    } else {
      reason = "the dynamic linker refuses it";
    }
    return "cannot load refdb's native library " + file + ": " + reason + " [" + said + "]";
  }
}

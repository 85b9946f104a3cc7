package org.refdb.engine;

import java.nio.file.Path;

/** Turns what the dynamic linker says into what an administrator can do. */
final class LoadAdvice {
  static final String OTHER_FOLDER =
      "name a folder on a disk that is writable and allows to execute files with -D"
          + NativeLibrary.FOLDER_PROPERTY
          + "=FOLDER";

  /** scripts/build-java sees to it that no build needs a newer one. */
  private static final String GLIBC_MIN = "2.34";

  private LoadAdvice() {}

  static String of(String linkerMessage, Path file, Platform platform) {
    String said = linkerMessage == null ? "" : linkerMessage;
    String reason;
    if (said.contains("failed to map segment") || said.contains("Operation not permitted")) {
      reason = "the file system of that folder does not allow to execute files (mounted noexec?); " + OTHER_FOLDER;
    } else if (said.contains("GLIBC_")) {
      reason = "this system's C library is older than glibc " + GLIBC_MIN + ", which refdb needs";
    } else if (said.contains("libc.musl") || said.contains("ld-musl") || said.contains("ld-linux")) {
      reason = "this system's C library is not glibc, which refdb's library needs";
    } else if (said.contains("wrong ELF class") || said.contains("invalid ELF header") || said.contains("wrong architecture")) {
      reason = "it is not made for this processor (" + platform.folder() + ")";
    } else {
      reason = "the dynamic linker refuses it";
    }
    return "cannot load refdb's native library " + file + ": " + reason + " [" + said + "]";
  }
}

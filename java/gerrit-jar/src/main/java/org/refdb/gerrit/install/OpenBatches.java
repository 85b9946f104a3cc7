package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Finds journal entries and locks of small batches in the repositories of a site. A running server has them for a
 * moment, and one that was killed leaves them. JGit and git do not know them, so the refs of such a batch would stay
 * locked, and may be changed in part.
 */
final class OpenBatches {
  private static final String RECORDS = "refdb-batches";
  private static final int SAID_MAX = 10;

  /** Suffix of a journal file. */
  private static final String SLOT = ".slot";

  /** Offset of the journal entry in a journal file; without an entry there are zeros from here on. */
  private static final int RECORD_AT = 512;

  private OpenBatches() {}

  /**
   * Fails if a repository has journal entries or locks of small batches, because only refdb can recover them, or if
   * that cannot be seen. Repositories whose folders cannot be read are not noticed.
   */
  static void requireNone(List<Path> roots) throws InstallException, IOException {
    List<Path> found = new ArrayList<>();
    List<Path> unreadable = new ArrayList<>();
    Repositories.visit(
        roots,
        folder -> {
          Path records = folder.resolve(RECORDS);
          try {
            if (hasRecord(records)) {
              found.add(folder);
            }
          } catch (AccessDeniedException | DirectoryIteratorException e) {
            unreadable.add(records);
          }
        });
    if (!unreadable.isEmpty()) {
      throw new InstallException(
          "cannot read "
              + unreadable.get(0)
              + " to see whether a batch of refs is not settled there. Run this as the user that Gerrit runs as.");
    }
    if (!found.isEmpty()) {
      StringBuilder text = new StringBuilder();
      for (Path repository : found.subList(0, Math.min(SAID_MAX, found.size()))) {
        text.append("\n  refdb -C ").append(repository).append(" refs settle");
      }
      throw new InstallException(
          found.size()
              + " repositories have a batch of refs that is not settled, of which git and JGit know nothing."
              + " Stop Gerrit, then settle each of them, beginning with:"
              + text);
    }
  }

  /**
   * Returns whether a folder has a journal entry or a lock. A file NAME.new, as an older refdb leaves it when it does
   * not finish, has no meaning.
   */
  private static boolean hasRecord(Path records) throws IOException {
    if (!Files.isDirectory(records)) {
      return false;
    }
    try (DirectoryStream<Path> all = Files.newDirectoryStream(records)) {
      for (Path one : all) {
        boolean means = !one.toString().endsWith(".new") && (!one.toString().endsWith(SLOT) || isUsed(one));
        if (means) {
          return true;
        }
      }
    }
    return false;
  }

  /** Returns whether a journal file has an entry, or locks, which are hard links to it. */
  private static boolean isUsed(Path slot) throws IOException {
    if ((Integer) Files.getAttribute(slot, "unix:nlink", LinkOption.NOFOLLOW_LINKS) > 1) {
      return true;
    }
    byte[] bytes = Files.readAllBytes(slot);
    for (int at = RECORD_AT; at < bytes.length; at++) {
      if (bytes[at] != 0) {
        return true;
      }
    }
    return false;
  }
}

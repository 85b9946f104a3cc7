package org.refdb.jgit;

import java.io.File;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import org.eclipse.jgit.lib.Constants;

/**
 * Removes old empty folders below {@code refs/heads/}, {@code refs/changes/} and their like. JGit's garbage collection
 * does so only for its own ref directory, and the refs of a change leave two folders behind once they are packed.
 */
final class EmptyFolders {
  /**
   * The least time since the last change of a folder that is removed. Whoever changed it later may be about to put a
   * ref there.
   */
  private static final Duration AGE_MIN = Duration.ofDays(1);

  private EmptyFolders() {}

  static void remove(File gitDir) throws IOException {
    remove(gitDir, Instant.now().minus(AGE_MIN));
  }

  static void remove(File gitDir, Instant madeBefore) throws IOException {
    Path refs = gitDir.toPath().resolve(Constants.R_REFS);
    try (DirectoryStream<Path> spaces = Files.newDirectoryStream(refs, EmptyFolders::isFolder)) {
      // refs/heads, refs/tags and their like stay.
      for (Path space : spaces) {
        removeBelow(space, madeBefore);
      }
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
  }

  private static void removeBelow(Path folder, Instant madeBefore) throws IOException {
    try {
      removeListed(folder, madeBefore);
    } catch (NoSuchFileException | AccessDeniedException e) {
      // Others remove folders too. A folder that cannot be read stays, because it may hold refs.
    }
  }

  private static void removeListed(Path folder, Instant madeBefore) throws IOException {
    try (DirectoryStream<Path> folders = Files.newDirectoryStream(folder, EmptyFolders::isFolder)) {
      for (Path below : folders) {
        // The modification time is read first, because removing entries changes it.
        boolean isOld = Files.getLastModifiedTime(below).toInstant().isBefore(madeBefore);
        removeBelow(below, madeBefore);
        if (isOld) {
          removeIfEmpty(below);
        }
      }
    } catch (DirectoryIteratorException e) {
      throw e.getCause(); // else it would end the packing with an unchecked exception
    }
  }

  private static void removeIfEmpty(Path folder) throws IOException {
    try {
      Files.delete(folder);
    } catch (DirectoryNotEmptyException | NoSuchFileException | AccessDeniedException e) {
      // The folder contains refs, has been removed, or belongs to someone else.
    }
  }

  private static boolean isFolder(Path path) {
    return Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS);
  }
}

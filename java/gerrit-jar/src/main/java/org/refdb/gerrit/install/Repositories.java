package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.FileVisitOption;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.EnumSet;
import java.util.List;

/** Finds the repositories below some folders. Like Gerrit, it follows symbolic links. */
final class Repositories {
  private Repositories() {}

  /** Receives what is found. */
  interface Visitor {
    /** Called once for each path at which a repository is found; a symbolic link may lead to the same one again. */
    void repository(Path folder) throws IOException;

    /**
     * Called for a file or folder that cannot be read, such as {@code lost+found} or a project that is being deleted,
     * and for a symbolic link to a folder above it.
     */
    default void unreadable(Path file, IOException error) {}
  }

  /** Visits all repositories below the roots; roots that do not exist are skipped. */
  static void visit(List<Path> roots, Visitor visitor) throws IOException {
    for (Path root : roots) {
      if (Files.isDirectory(root)) {
        Files.walkFileTree(root, EnumSet.of(FileVisitOption.FOLLOW_LINKS), Integer.MAX_VALUE, walker(visitor));
      }
    }
  }

  private static SimpleFileVisitor<Path> walker(Visitor visitor) {
    return new SimpleFileVisitor<>() {
      @Override
      public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) throws IOException {
        if (!isRepository(folder)) {
          return FileVisitResult.CONTINUE;
        }
        visitor.repository(folder);
        return FileVisitResult.SKIP_SUBTREE;
      }

      @Override
      public FileVisitResult visitFileFailed(Path file, IOException error) {
        visitor.unreadable(file, error);
        return FileVisitResult.CONTINUE;
      }

      @Override
      public FileVisitResult postVisitDirectory(Path folder, IOException error) {
        if (error != null) {
          visitor.unreadable(folder, error);
        }
        return FileVisitResult.CONTINUE;
      }
    };
  }

  private static boolean isRepository(Path folder) {
    return Files.isDirectory(folder.resolve("objects")) && Files.isRegularFile(folder.resolve("HEAD"));
  }
}

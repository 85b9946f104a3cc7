package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.List;
import org.refdb.engine.BrokenRef;
import org.refdb.engine.EngineException;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.RefView;
import org.refdb.engine.RefViewSettings;
import org.refdb.engine.RefViews;

/**
 * Looks at a site's repositories before refdb serves them, and names the differences from JGit to come. Such are refs
 * whose files are no good, and repositories that refdb does not understand. It changes nothing.
 */
final class RepositoryLook {
  private static final int SAID_MAX = 100;
  private static final long MEMORY_BYTES = 4 << 20;
  private static final int FILES_MAX = 64;

  private final Path root;
  private final PrintStream out;
  private int repositories;
  private int refs;
  private int refused;

  private RepositoryLook(Path root, PrintStream out) {
    this.root = root;
    this.out = out;
  }

  /** Looks at all repositories below a folder. */
  static void at(Path root, PrintStream out) throws IOException {
    RepositoryLook look = new RepositoryLook(root, out);
    try (RefViews views = RefViews.open(MEMORY_BYTES, FILES_MAX)) {
      look.walk(views);
    } catch (EngineLoadException e) {
      out.println("note: the repositories were not looked at: " + e.getMessage());
      return;
    }
    look.sum();
  }

  private void walk(RefViews views) throws IOException {
    if (!Files.isDirectory(root)) {
      return;
    }
    Files.walkFileTree(
        root,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) {
            if (!isRepository(folder)) {
              return FileVisitResult.CONTINUE;
            }
            look(views, folder);
            return FileVisitResult.SKIP_SUBTREE;
          }

          @Override
          public FileVisitResult visitFileFailed(Path file, IOException error) {
            say(file, "cannot be looked at: " + error);
            return FileVisitResult.CONTINUE;
          }
        });
  }

  static boolean isRepository(Path folder) {
    return Files.isDirectory(folder.resolve("objects")) && Files.isRegularFile(folder.resolve("HEAD"));
  }

  private void look(RefViews views, Path folder) {
    repositories++;
    try (RefView view = views.open(folder, RefViewSettings.defaults())) {
      List<BrokenRef> broken = view.broken();
      for (BrokenRef ref : broken) {
        refs++;
        say(folder, ref.name() + " is broken: " + ref.text());
      }
    } catch (EngineException e) {
      refused++;
      say(folder, "refdb cannot serve it: " + e.getMessage());
    } finally {
      views.forget(folder);
    }
  }

  private void say(Path folder, String what) {
    if (refs + refused <= SAID_MAX) {
      out.println("note: " + root.relativize(folder) + ": " + what);
    }
  }

  private void sum() {
    out.println(
        "looked at " + repositories + " repositories in " + root + ": " + refs + " broken refs, " + refused
            + " repositories that refdb cannot serve");
    if (refs > 0) {
      out.println(
          "  broken refs are left out of lists, and garbage is not collected beside them: write each again or delete it");
    }
  }
}

package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.refdb.engine.BrokenRef;
import org.refdb.engine.EngineException;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.EngineView;
import org.refdb.engine.EngineViewSettings;
import org.refdb.engine.EngineViews;
import org.refdb.engine.SiteLibrary;

/**
 * Examines a site's repositories before refdb serves them, and reports how refdb will differ from JGit: broken refs,
 * and repositories that refdb does not support. It also says what the mounts of repositories on network file systems
 * mean for refs, and ends with status {@link #UNSAFE} if refdb would refuse to write on one of them. It changes
 * nothing. It runs as Gerrit's user where possible, because root may read what that user may not.
 */
public final class RepositoryLook implements Repositories.Visitor {
  /** How many notes of a kind are printed. */
  private static final int SAID_MAX = 100;

  private static final long MEMORY_BYTES = 4 << 20;
  private static final int FILES_MAX = 64;

  /** Maximum number of mounts that are reported, because an automounter can make a mount for each repository. */
  private static final int MOUNTS_MAX = 16;

  /** The exit status if refdb would refuse to write to a repository because of its storage. */
  static final int UNSAFE = 3;

  /** The setting that lets refdb write where updates can be lost, in the form that the engine takes. */
  static final String OVERRIDE = "refdb.unsafeStorage=true";

  private final EngineViews views;
  private final EngineViewSettings settings;
  private final PrintStream out;
  private int repositories;
  private int refs;
  private int refused;
  private int unreadable;
  private int unsafe;

  /**
   * For each description of a mount of a network file system, the first repository that was found on such a mount. There
   * are at most {@link #MOUNTS_MAX}.
   */
  private final Map<String, Path> mounts = new LinkedHashMap<>();

  private RepositoryLook(EngineViews views, boolean mayBeUnsafe, PrintStream out) {
    this.views = views;
    this.out = out;
    EngineViewSettings usual = EngineViewSettings.defaults();
    settings = mayBeUnsafe ? usual.with(List.of(OVERRIDE)) : usual;
  }

  /**
   * Program {@code LIBRARY [refdb.unsafeStorage=true] FOLDER...}: examines all repositories below the folders. {@code
   * LIBRARY} is the folder in which the native library is unpacked.
   */
  public static void main(String[] arguments) throws IOException {
    List<String> words = List.of(arguments);
    boolean mayBeUnsafe = words.size() > 1 && words.get(1).equals(OVERRIDE);
    List<Path> folders = words.stream().skip(mayBeUnsafe ? 2 : 1).map(Path::of).toList();
    try {
      SiteLibrary.load(Path.of(words.getFirst()));
      if (!at(folders, mayBeUnsafe, System.out)) {
        System.exit(UNSAFE);
      }
    } catch (EngineLoadException e) {
      System.out.println("the repositories were not looked at: " + e.getMessage());
      System.exit(1);
    }
  }

  /** Returns false if refdb would refuse to write to one of the repositories because of its storage. */
  private static boolean at(List<Path> roots, boolean mayBeUnsafe, PrintStream out)
      throws EngineLoadException, IOException {
    try (EngineViews views = EngineViews.open(MEMORY_BYTES, FILES_MAX)) {
      RepositoryLook look = new RepositoryLook(views, mayBeUnsafe, out);
      Repositories.visit(roots, look);
      look.sum(roots);
      return look.unsafe == 0;
    }
  }

  @Override
  public void repository(Path folder) {
    repositories++;
    try (EngineView view = views.open(folder, settings)) {
      Optional<String> mount = view.sharedStorage();
      if (mount.isPresent() && mounts.size() < MOUNTS_MAX) {
        mounts.putIfAbsent(mount.get(), folder);
      }
      Optional<String> fault = view.storageFault();
      if (fault.isPresent()) {
        say(++unsafe, folder, fault.get());
      }
      List<BrokenRef> broken = view.broken();
      for (BrokenRef ref : broken) {
        say(++refs, folder, ref.name() + " is broken: " + ref.text());
      }
    } catch (EngineException e) {
      say(++refused, folder, "refdb cannot serve it: " + e.getMessage());
    } finally {
      views.forget(folder);
    }
  }

  @Override
  public void unreadable(Path file, IOException error) {
    say(++unreadable, file, "cannot be looked at: " + error);
  }

  private void say(int number, Path file, String what) {
    if (number <= SAID_MAX) {
      out.println("note: " + file + ": " + what);
    }
  }

  private void sum(List<Path> roots) {
    mounts.forEach(
        (text, folder) -> {
          out.println("storage of " + folder + ", and of all repositories on such a mount:");
          text.lines().forEach(line -> out.println("  " + line));
        });
    String places = String.join(" and ", roots.stream().map(Path::toString).toList());
    out.println(
        "looked at " + repositories + " repositories in " + places + ": " + refs + " broken refs, " + refused
            + " repositories that refdb cannot serve");
    if (refs > 0) {
      out.println(
          "  broken refs are left out of lists, and garbage is not collected beside them: write each again or"
              + " delete it");
    }
  }
}

package org.refdb.gerrit.refs;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.refdb.engine.EngineException;
import org.refdb.engine.VerifyReport;

/** Compares all refs of two views of one repository while they may be changing. */
final class Verification {
  private static final int ROUNDS_MAX = 3;

  private Verification() {}

  /**
   * Compares two views.
   *
   * <p>A ref that differs is read again from both views, after JGit was told to check the disk: a ref that was changed
   * in between then agrees, and one that the engine has wrong does not. The engine is not told: it has to notice the
   * change by itself.
   *
   * @param known names of refs that are not compared: those that the engine itself has found to differ, and broken
   *     ones, for which JGit may show the values of packed-refs, and the engine shows none
   * @return at most {@code max} differences
   */
  static List<String> compare(RefDatabase jgit, RefDatabase engine, Set<String> known, int max)
      throws IOException {
    TreeMap<String, String> wanted = all(jgit);
    TreeMap<String, String> got = all(engine);
    TreeSet<String> suspects = new TreeSet<>(wanted.keySet());
    suspects.addAll(got.keySet());
    suspects.removeAll(known);
    suspects.removeIf(name -> Objects.equals(wanted.get(name), got.get(name)));
    for (int round = 0; round < ROUNDS_MAX && !suspects.isEmpty(); round++) {
      jgit.refresh();
      TreeMap<String, String> nowWanted = all(jgit);
      for (String name : new TreeSet<>(suspects)) {
        if (agrees(nowWanted.get(name), engine, name)) {
          suspects.remove(name);
        }
      }
    }
    return describe(suspects, wanted, got, max);
  }

  private static boolean agrees(String wanted, RefDatabase engine, String name) throws IOException {
    try {
      return Objects.equals(wanted, text(engine.exactRef(name)));
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.BROKEN_REF) {
        return true; // broken since a moment ago: nothing to compare
      }
      throw e;
    }
  }

  private static List<String> describe(
      TreeSet<String> names, TreeMap<String, String> wanted, TreeMap<String, String> got, int max) {
    List<String> differences = new ArrayList<>();
    for (String name : names) {
      if (differences.size() == max) {
        break;
      }
      String disk = wanted.getOrDefault(name, "missing");
      differences.add(new VerifyReport.Difference(name, got.getOrDefault(name, "nothing"), disk).line());
    }
    return differences;
  }

  private static TreeMap<String, String> all(RefDatabase refs) throws IOException {
    TreeMap<String, String> all = new TreeMap<>();
    for (Ref ref : refs.getRefs()) {
      all.put(ref.getName(), text(ref));
    }
    return all;
  }

  private static String text(Ref ref) {
    return ref == null ? null : Answers.ref(ref);
  }
}

package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.SiteLibrary;

/**
 * Program {@code FOLDER FILE...}: loads the native library in the folder, as Gerrit will, checks that the files can be
 * read, and prints what fails.
 */
public final class Trial {
  private Trial() {}

  /** Exits with 0 if all works, else 1. */
  public static void main(String[] arguments) {
    List<String> problems = new ArrayList<>();
    try {
      SiteLibrary.load(Path.of(arguments[0]));
    } catch (EngineLoadException e) {
      problems.add(e.getMessage());
    }
    for (String name : List.of(arguments).subList(1, arguments.length)) {
      Path file = Path.of(name);
      if (!Files.isReadable(file)) {
        problems.add(System.getProperty("user.name") + " cannot read " + file + said(file));
      }
    }
    problems.forEach(System.out::println);
    System.exit(problems.isEmpty() ? 0 : 1);
  }

  private static String said(Path file) {
    try {
      return " (" + Ownership.of(file) + ")";
    } catch (IOException e) {
      return ": " + e; // it is missing, or the way to it is barred
    }
  }
}

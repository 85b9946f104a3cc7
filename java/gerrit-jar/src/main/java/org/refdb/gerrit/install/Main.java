package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.refdb.engine.NativeLibrary;

/** {@code java -jar refdb-gerrit.jar}. */
public final class Main {
  private static final String USAGE =
      """
      usage: java -jar refdb-gerrit.jar install SITE [--named] [--war FILE]
             java -jar refdb-gerrit.jar uninstall SITE
             java -jar refdb-gerrit.jar version
      install    puts the lib module and the plugin into the site and names the modules in gerrit.config
        --named    another module (multi-site, global-refdb) wraps Gerrit's repositories: lend refdb's to it
        --war      the site's gerrit.war, where it is not SITE/bin/gerrit.war
      uninstall  undoes that""";

  private Main() {}

  /** Runs one command and ends the process with its status: 0 done, 1 refused or failed, 2 not understood. */
  public static void main(String[] arguments) {
    System.exit(run(List.of(arguments), System.out, System.err));
  }

  static int run(List<String> arguments, PrintStream out, PrintStream err) {
    try {
      Deque<String> words = new ArrayDeque<>(arguments);
      String command = words.isEmpty() ? "" : words.pop();
      Path site = null;
      Path war = null;
      boolean named = false;
      while (!words.isEmpty()) {
        String word = words.pop();
        if (word.equals("--named") && command.equals("install")) {
          named = true;
        } else if (word.equals("--war") && command.equals("install") && !words.isEmpty()) {
          war = Path.of(words.pop());
        } else if (!word.startsWith("-") && site == null) {
          site = Path.of(word);
        } else {
          return misunderstood(err);
        }
      }
      if (command.equals("install") && site != null) {
        new Installer(out).install(site, war, named);
      } else if (command.equals("uninstall") && site != null) {
        new Installer(out).uninstall(site);
      } else if (command.equals("version") && site == null) {
        out.println(NativeLibrary.version());
      } else {
        return misunderstood(err);
      }
      return 0;
    } catch (InstallException e) {
      err.println("refdb: " + e.getMessage());
      return 1;
    } catch (IOException e) {
      err.println("refdb: " + e);
      return 1;
    }
  }

  private static int misunderstood(PrintStream err) {
    err.println(USAGE);
    return 2;
  }
}

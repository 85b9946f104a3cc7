package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.EnumSet;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import org.refdb.engine.NativeLibrary;

/** Parses the command line of {@code java -jar refdb-gerrit.jar}. */
public final class Main {
  private static final String USAGE =
      """
      usage: java -jar refdb-gerrit.jar install SITE [--only refs|caches] [--named] [--global etcd=URL,...]
                                              [--no-git-config] [--war FILE]
             java -jar refdb-gerrit.jar uninstall SITE
             java -jar refdb-gerrit.jar status SITE
             java -jar refdb-gerrit.jar import-caches SITE [--dry-run] [--war FILE] [--chronicle-map FOLDER]
             java -jar refdb-gerrit.jar export-caches SITE [--dry-run] [--war FILE]
             java -jar refdb-gerrit.jar wipe-caches|delete-old-caches SITE [--dry-run]
             java -jar refdb-gerrit.jar version
      install    puts the lib modules and the plugin into the site and names the modules in gerrit.config
        --only     just the ref database, or just the persistent caches, not both
        --named    another module (multi-site, global-refdb) wraps Gerrit's repositories: lend refdb's to it
        --global   also installs the global ref database of several nodes, on etcd at these addresses
        --no-git-config  leave the git configuration of Gerrit's user alone, so that git may still pack refs
        --war      the site's gerrit.war, where it is not SITE/bin/gerrit.war
      uninstall  undoes what install did
      status     says whether Gerrit uses the installed files or, if it is stopped, could; ends with 1 if not
      of a stopped site's persistent caches (--dry-run changes nothing and says what would be done):
      import-caches      takes them from Gerrit's H2 files, and from those of cache-chroniclemap, to refdb
        --chronicle-map  where ChronicleMap's jars are, if the module is not in SITE/lib any more
      export-caches      takes them from refdb to H2 files
      wipe-caches        deletes what refdb has, and the H2 files it was taken from, but not exported ones
      delete-old-caches  deletes the H2 files that were taken over; the server may run""";

  private static final List<String> ONLY = List.of("refs", "caches");

  private Main() {}

  /**
   * Runs one command and exits with its status: 0 for success; 1 if the command was refused or failed, or if {@code
   * status} found a fault; 2 for a usage error.
   */
  public static void main(String[] arguments) {
    System.exit(run(List.of(arguments), System.out, System.err));
  }

  static int run(List<String> arguments, PrintStream out, PrintStream err) {
    try {
      Deque<String> words = new ArrayDeque<>(arguments);
      String command = words.isEmpty() ? "" : words.pop();
      Path site = null;
      Path war = null;
      Path chronicleMap = null;
      String only = "";
      String etcd = null;
      boolean named = false;
      boolean setsGit = true;
      boolean dryRun = false;
      CacheCommand.Verb verb = CacheCommand.Verb.of(command);
      boolean needsH2 = verb == CacheCommand.Verb.IMPORT || verb == CacheCommand.Verb.EXPORT;
      while (!words.isEmpty()) {
        String word = words.pop();
        boolean installs = command.equals("install");
        if (word.equals("--named") && installs) {
          named = true;
        } else if (word.equals("--global")
            && installs
            && !words.isEmpty()
            && words.peek().startsWith(GlobalRefsPlugin.ETCD)) {
          etcd = words.pop().substring(GlobalRefsPlugin.ETCD.length());
        } else if (word.equals("--no-git-config") && installs) {
          setsGit = false;
        } else if (word.equals("--war") && (installs || needsH2) && !words.isEmpty()) {
          war = Path.of(words.pop());
        } else if (word.equals("--chronicle-map") && verb == CacheCommand.Verb.IMPORT && !words.isEmpty()) {
          chronicleMap = Path.of(words.pop());
        } else if (word.equals("--dry-run") && verb != null) {
          dryRun = true;
        } else if (word.equals("--only") && installs && !words.isEmpty() && ONLY.contains(words.peek())) {
          only = words.pop();
        } else if (!word.startsWith("-") && site == null) {
          site = Path.of(word);
        } else {
          return misunderstood(err);
        }
      }
      if (command.equals("install") && site != null) {
        new Installer(out).install(site, war, modules(only, named), etcd, setsGit);
      } else if (command.equals("uninstall") && site != null) {
        new Installer(out).uninstall(site);
      } else if (verb != null && site != null) {
        CacheCommand cacheCommand = new CacheCommand(out, err);
        OptionalInt done = cacheCommand.runAsOwner(site, arguments);
        return done.isPresent() ? done.getAsInt() : cacheCommand.run(verb, site, war, chronicleMap, dryRun) ? 0 : 1;
      } else if (command.equals("status") && site != null) {
        return new Status(out).of(site) ? 0 : 1;
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

  private static Set<GerritModule> modules(String only, boolean named) {
    Set<GerritModule> modules = EnumSet.noneOf(GerritModule.class);
    if (!only.equals("caches")) {
      modules.add(named ? GerritModule.NAMED_REFS : GerritModule.REFS);
      modules.add(GerritModule.REFS_IN_SERVER);
    }
    if (!only.equals("refs")) {
      modules.add(GerritModule.CACHES);
      modules.add(GerritModule.CACHES_OFFLINE);
    }
    return modules;
  }

  private static int misunderstood(PrintStream err) {
    err.println(USAGE);
    return 2;
  }
}

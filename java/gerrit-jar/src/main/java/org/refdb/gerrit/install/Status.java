package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.jar.Manifest;
import org.refdb.engine.ServerNote;

/** Reports whether a site uses the refdb that it is configured to use. */
final class Status {
  private final PrintStream out;
  private final List<String> faults = new ArrayList<>();

  Status(PrintStream out) {
    this.out = out;
  }

  /** Prints the report; returns false if something is wrong. */
  boolean of(Path folder) throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    Set<ServerNote.Half> halves = configured(config);
    if (halves.isEmpty()) {
      if (faults.isEmpty()) {
        faults.add("gerrit.config names no module of refdb: it is not installed");
        if (site.hasRefdb()) {
          faults.add("there are jars of refdb all the same: run install, or uninstall");
        }
      }
      return verdict();
    }
    jars(site);
    library(site, config);
    if (halves.contains(ServerNote.Half.REFS)) {
      git(site, config);
    }
    server(site, halves);
    return verdict();
  }

  /**
   * Returns the halves of refdb that gerrit.config names. Reports it as a fault if it names only one of the two modules
   * for refs, or both of which one takes the place of the other.
   */
  private Set<ServerNote.Half> configured(ConfigFile config) {
    Set<ServerNote.Half> halves = EnumSet.noneOf(ServerNote.Half.class);
    boolean isNamed = GerritModule.NAMED_REFS.isIn(config);
    boolean hasRefs = GerritModule.REFS.isIn(config) || isNamed;
    if (hasRefs != GerritModule.REFS_IN_SERVER.isIn(config)) {
      faults.add("gerrit.config has one of the two modules for refs: run install again");
    }
    if (GerritModule.REFS.isIn(config) && isNamed) {
      faults.add(
          "gerrit.config has RefdbDbModule and RefdbNamedDbModule: remove the line of RefdbNamedDbModule, or that of"
              + " RefdbDbModule if another module wraps Gerrit's repositories");
    }
    if (hasRefs) {
      halves.add(ServerNote.Half.REFS);
    }
    if (GerritModule.CACHES.isIn(config)) {
      halves.add(ServerNote.Half.CACHES);
    }
    halves.forEach(half -> say(half.word(), "configured in gerrit.config"));
    return halves;
  }

  private void jars(Site site) {
    String lib = version(site.libJar());
    String plugin = version(site.pluginJar());
    if (lib != null && lib.equals(plugin)) {
      say("refdb", lib);
    } else if (lib != null && plugin != null) {
      faults.add(
          site.libJar()
              + " is of version "
              + lib
              + ", "
              + site.pluginJar()
              + " of "
              + plugin
              + ": run install again");
    }
  }

  private String version(Path jar) {
    try (JarFile file = new JarFile(jar.toFile())) {
      Manifest manifest = file.getManifest();
      return manifest == null ? null : manifest.getMainAttributes().getValue("Implementation-Version");
    } catch (IOException e) {
      faults.add("cannot read " + jar + ": " + e.getMessage() + ": run install again");
      return null;
    }
  }

  private void library(Site site, ConfigFile config) throws InstallException, IOException {
    GerritUser user = GerritUser.of(site, config);
    say("user", user.name() + ", " + user.why());
    SiteTrial trial = new SiteTrial(site, config, user);
    Optional<String> obstacle = trial.obstacle();
    if (obstacle.isPresent()) {
      say("library", "NOT TRIED as " + user.name() + ", because " + obstacle.get());
      return;
    }
    Optional<String> problem = trial.run(List.of(site.config(), site.libJar(), site.pluginJar()));
    if (problem.isPresent()) {
      faults.add(problem.get());
    } else {
      say("library", user.name() + " can load it in " + site.nativeFolder(config));
    }
  }

  /** Warns about git's settings; this is not an error, because git's own maintenance may never run here. */
  private void git(Site site, ConfigFile config) throws InstallException, IOException {
    AsGerrit asGerrit = new AsGerrit(site, config, GerritUser.of(site, config));
    if (asGerrit.obstacle().isPresent()) {
      return;
    }
    AsGerrit.Said said = asGerrit.run(GitSettings.class, List.of("check"));
    Optional<String> batches = SmallBatches.of(site);
    if (batches.isPresent()) {
      say("batches", "refdb.smallBatches is " + batches.get() + " in " + site.jgitConfig());
    }
    if (said.status() == 0) {
      say("git", "its gc and maintenance pack no refs, where a repository's own config says nothing else");
    } else {
      said.text().lines().forEach(line -> say("WARNING", line));
      say("WARNING", "git gc and git maintenance beside writers can lose refs: run install again, or see the guide");
    }
  }

  private void server(Site site, Set<ServerNote.Half> halves) throws IOException {
    Optional<Long> pid = site.runningServer();
    for (ServerNote.Half half : halves) {
      Optional<ServerNote> note = ServerNote.running(site.folder(), half);
      if (note.isEmpty()) {
        if (pid.isPresent()) {
          faults.add(
              "Gerrit runs, process " + pid.get() + ", but refdb's " + half.word()
                  + " did not start with it: restart Gerrit; if this stays, its error_log says why");
        }
        continue;
      }
      pid = Optional.of(note.get().pid());
      if (note.get().inUse()) {
        say(half.word(), "in use by Gerrit, process " + note.get().pid() + ", refdb " + note.get().version());
      } else {
        faults.add(
            "refdb's "
                + half.word()
                + " are configured and NOT IN USE by Gerrit, process "
                + note.get().pid()
                + ": "
                + note.get().text());
      }
    }
    if (pid.isEmpty()) {
      say("server", "Gerrit does not run");
    }
  }

  private void say(String what, String text) {
    out.printf("%-9s%s%n", what, text);
  }

  private boolean verdict() {
    faults.forEach(fault -> out.println("FAULT    " + fault));
    out.println(faults.isEmpty() ? "good" : faults.size() + " faults");
    return faults.isEmpty();
  }
}

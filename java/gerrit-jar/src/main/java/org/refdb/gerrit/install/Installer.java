package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.List;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.NativeLibrary;

/** Installs and uninstalls. It checks everything before it changes anything. */
final class Installer {
  static final String DB_MODULE = "org.refdb.gerrit.RefdbDbModule";
  static final String NAMED_DB_MODULE = "org.refdb.gerrit.RefdbNamedDbModule";
  static final String SYS_MODULE = "org.refdb.gerrit.RefdbModule";

  private static final String DB_KEY = "installDbModule";
  private static final String SYS_KEY = "installModule";
  private static final String SECTION = "gerrit";

  private final PrintStream out;

  Installer(PrintStream out) {
    this.out = out;
  }

  /**
   * Installs.
   *
   * @param war the site's gerrit.war, or null for the one in its bin folder
   * @param named whether another module wraps the repositories and takes refdb's by name
   */
  void install(Path folder, Path war, boolean named) throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    GerritVersion gerrit = GerritVersion.of(war != null ? war : site.war());
    gerrit.check();
    List<String> javaHomes = config.values("container", "javaHome");
    JavaVersion java = JavaVersion.of(javaHomes.isEmpty() ? null : javaHomes.getLast());
    java.check();
    String module = named ? NAMED_DB_MODULE : DB_MODULE;
    String other = named ? DB_MODULE : NAMED_DB_MODULE;
    checkOthers(config.values(SECTION, DB_KEY), named);
    loadNative(site);
    out.println("Gerrit " + gerrit.text() + ", Java " + java.feature() + ", refdb " + NativeLibrary.version());

    site.putJars().forEach(out::println);
    boolean changed = config.remove(SECTION, DB_KEY, other);
    changed |= config.add(SECTION, SYS_KEY, SYS_MODULE);
    changed |= config.add(SECTION, DB_KEY, module);
    if (changed) {
      config.write();
      out.println("added to " + site.config() + ":");
      out.println("  [" + SECTION + "]");
      out.println("    " + DB_KEY + " = " + module);
      out.println("    " + SYS_KEY + " = " + SYS_MODULE);
    } else {
      out.println("left " + site.config() + " as it is: the modules are in it");
    }
    adviseCluster(site);
    out.println("Now restart Gerrit. `java -jar refdb-gerrit.jar uninstall " + folder + "` undoes this.");
  }

  /** Takes refdb out. The repositories need nothing: they are what they were. */
  void uninstall(Path folder) throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    boolean changed = config.remove(SECTION, DB_KEY, DB_MODULE);
    changed |= config.remove(SECTION, DB_KEY, NAMED_DB_MODULE);
    changed |= config.remove(SECTION, SYS_KEY, SYS_MODULE);
    if (changed) {
      config.write();
      out.println("removed refdb's modules from " + site.config());
    }
    List<String> removed = site.removeJars();
    removed.forEach(out::println);
    out.println(changed || !removed.isEmpty() ? "Now restart Gerrit." : "refdb is not installed in " + folder);
  }

  private void checkOthers(List<String> modules, boolean named) throws InstallException {
    for (String module : modules) {
      if (module.contains("cachedrefdb")) {
        throw new InstallException(
            "the site uses " + module + ", which takes the same place as refdb: remove its gerrit." + DB_KEY
                + " and gerrit." + SYS_KEY + " lines from gerrit.config, then install refdb");
      }
      if (!named && !module.startsWith("org.refdb.")) {
        out.println(
            "note: the site has gerrit." + DB_KEY + " = " + module + " as well. If that one wraps Gerrit's repositories"
                + " (multi-site, global-refdb), install refdb with --named; Gerrit will not start with two of a kind");
      }
    }
  }

  /** The surest check of platform, C library and folder: do it. */
  private static void loadNative(Site site) throws InstallException {
    try {
      NativeLibrary.load(site.nativeFolder());
    } catch (EngineLoadException e) {
      throw new InstallException(e.getMessage(), e);
    }
  }

  private void adviseCluster(Site site) throws IOException {
    if (site.has("high-availability")) {
      adviseFile("etc/high-availability.config");
    }
    if (site.has("multi-site")) {
      adviseFile("etc/multi-site.config");
    }
  }

  private void adviseFile(String file) {
    out.println("on every node of the cluster, add to " + file + ":");
    out.println("  [cache]");
    out.println("    pattern = refdb_hints");
  }
}

package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.refdb.engine.NativeLibrary;

/** Installs and uninstalls refdb. It checks what it can before it changes anything. */
final class Installer {
  private static final String SECTION = "gerrit";
  private static final String DB_KEY = "installDbModule";

  /** Gerrit's setting that reads all refs into maps in each push, which is meant for slow ref databases. */
  private static final String RECEIVE = "receive";
  private static final String IN_MEMORY_KEY = "enableInMemoryRefCache";

  private final PrintStream out;

  Installer(PrintStream out) {
    this.out = out;
  }

  /**
   * Installs refdb.
   *
   * @param war the site's gerrit.war, or null for the one in its bin folder
   * @param wanted the modules to install; refdb's other modules are removed
   * @param etcd addresses of etcd for the global ref database, or null to leave that unchanged
   * @param setsGit whether the git configuration of Gerrit's user may be changed
   * @throws InstallException for example if the site, its Gerrit or its Java is not fit for refdb, if the repositories
   *     cannot be examined, if refdb would refuse to write to one of them, or if refdb does not get the refs and a
   *     repository has a batch that is not settled
   */
  void install(Path folder, Path war, Set<GerritModule> wanted, String etcd, boolean setsGit)
      throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    GerritVersion gerrit = GerritVersion.of(war != null ? war : site.war());
    gerrit.check();
    List<String> javaHomes = config.values("container", "javaHome");
    JavaVersion java = JavaVersion.of(javaHomes.isEmpty() ? null : javaHomes.getLast());
    java.check();
    checkOthers(config, wanted);
    GlobalRefsPlugin global = new GlobalRefsPlugin(site, config);
    if (etcd != null) {
      global.check(etcd);
    }
    if (!wanted.contains(GerritModule.REFS)) {
      global.requireNotNative();
    }
    if (!wanted.contains(GerritModule.REFS_IN_SERVER)) {
      OpenBatches.requireNone(site.repositories(config)); // JGit serves the refs from now on
    }
    site.requireToKeep(Site.self());
    for (Path touched : List.of(site.config(), site.jgitConfig(), site.libJar(), site.pluginJar())) {
      OwnedFiles.tryReplacing(touched);
    }
    GerritUser user = GerritUser.of(site, config);
    tryAs(user, site, config, List.of(site.config()));
    if (wanted.contains(GerritModule.REFS) || wanted.contains(GerritModule.NAMED_REFS)) {
      look(user, site, config);
    }
    out.println("Gerrit " + gerrit.text() + ", Java " + java.feature() + ", refdb " + NativeLibrary.version());

    site.putJars().forEach(out::println);
    // An upgrade replaces all plugins, so that all have the same version.
    global.put(etcd != null).forEach(out::println);
    boolean changed = etcd != null && global.configure(etcd);
    for (GerritModule module : GerritModule.values()) {
      changed |=
          wanted.contains(module)
              ? config.add(SECTION, module.key(), module.className())
              : config.remove(SECTION, module.key(), module.className());
    }
    boolean refs = wanted.contains(GerritModule.REFS_IN_SERVER);
    changed |= refs ? config.setUnlessSet(RECEIVE, IN_MEMORY_KEY, "false") : config.unset(RECEIVE, IN_MEMORY_KEY);
    if (changed) {
      config.write();
      out.println("wrote " + site.config() + ", which has now:");
      out.println("  [" + SECTION + "]");
      wanted.forEach(module -> out.println("    " + module.key() + " = " + module.className()));
      config.values(RECEIVE, IN_MEMORY_KEY).forEach(value -> {
        out.println("  [" + RECEIVE + "]");
        out.println("    " + IN_MEMORY_KEY + " = " + value);
      });
    } else {
      out.println("left " + site.config() + " as it is: the modules are in it");
    }
    tryAs(user, site, config, List.of(site.config(), site.libJar(), site.pluginJar()));
    tell(user, new AsGerrit(site, config, user).obstacle(), folder);
    boolean packsNothing = refs && setGit(new AsGerrit(site, config, user), user, setsGit);
    setSmallBatches(site, refs, packsNothing && setsGit);
    adviseCluster(site);
    out.println("Now restart Gerrit. `java -jar refdb-gerrit.jar uninstall " + folder + "` undoes this.");
  }

  /**
   * Uninstalls refdb. No repository needs a conversion.
   *
   * @throws InstallException for example if the folder is no Gerrit site, a repository has a batch that is not settled,
   *     refdb.global is set, or container.user names no user
   */
  void uninstall(Path folder) throws InstallException, IOException {
    Site site = Site.at(folder);
    ConfigFile config = ConfigFile.read(site.config());
    new GlobalRefsPlugin(site, config).requireNotNative();
    OpenBatches.requireNone(site.repositories(config));
    boolean changed = false;
    for (GerritModule module : GerritModule.values()) {
      changed |= config.remove(SECTION, module.key(), module.className());
    }
    changed |= config.unset(RECEIVE, IN_MEMORY_KEY);
    changed |= new GlobalRefsPlugin(site, config).unconfigure();
    // Before anything is written, because it fails if container.user names no user.
    AsGerrit asGerrit = new AsGerrit(site, config, GerritUser.of(site, config));
    if (changed) {
      config.write();
      out.println("removed refdb's modules from " + site.config());
    }
    if (SmallBatches.turnOff(site)) {
      out.println("wrote " + site.jgitConfig());
    }
    if (changed && asGerrit.obstacle().isEmpty()) {
      print(asGerrit.run(GitSettings.class, List.of("unset")).text());
    }
    List<String> removed = site.removeJars();
    removed.addAll(new GlobalRefsPlugin(site, config).remove());
    removed.forEach(out::println);
    tellOfSecrets(site, config);
    out.println(changed || !removed.isEmpty() ? "Now restart Gerrit." : "refdb is not installed in " + folder);
  }

  private void tell(GerritUser user, Optional<String> obstacle, Path folder) {
    String who = user.name() + " (" + user.why() + ")";
    if (obstacle.isEmpty()) {
      out.println("tried as Gerrit's user " + who);
    } else {
      out.println(
          "NOT TRIED as Gerrit's user " + who + ", because " + obstacle.get() + ". Before you restart Gerrit, run as "
              + user.name() + ": java -jar refdb-gerrit.jar status " + folder);
    }
  }

  /**
   * Warns about the cache of sessions that stays, because the key of a session is the cookie that authenticates its
   * user.
   */
  private void tellOfSecrets(Site site, ConfigFile config) {
    List<String> names = config.values("cache", "directory");
    Path directory = names.isEmpty() ? null : site.folder().resolve(names.getLast());
    if (directory != null && Files.isDirectory(directory.resolve("refdb"))) {
      out.println(
          "LEFT "
              + directory.resolve("refdb")
              + ", refdb's persistent caches, with the cookies of sessions and tokens that are"
              + " still good, and H2's old files beside it. `export-caches SITE` takes them back to H2,"
              + " `wipe-caches SITE` deletes them");
    }
  }

  /**
   * Turns on small batches if {@code packsNothing} is set, except in a cluster, where another node could read half of
   * one: there the setting stays as it is. If refdb does not serve refs, undoes what an earlier installation has set.
   */
  private void setSmallBatches(Site site, boolean refs, boolean packsNothing) throws IOException {
    boolean isCluster = site.has("high-availability") || site.has("multi-site");
    if (!refs) {
      SmallBatches.turnOff(site);
    } else if (packsNothing && !isCluster && SmallBatches.turnOn(site)) {
      out.println("wrote " + site.jgitConfig() + ": small batches of refs become loose files (refdb.smallBatches)");
    } else if (isCluster && SmallBatches.of(site).isEmpty()) {
      out.println("note: small batches of refs go to packed-refs, as before, since other nodes could see half of one");
    }
  }

  /**
   * Keeps git's own maintenance from packing refs, which can lose some; without {@code setsGit}, only looks whether it
   * is kept from that. Returns whether the git configuration of Gerrit's user is known to keep git from packing now.
   */
  private boolean setGit(AsGerrit asGerrit, GerritUser user, boolean setsGit) throws InstallException, IOException {
    boolean canBe = asGerrit.obstacle().isEmpty();
    AsGerrit.Said said = canBe ? asGerrit.run(GitSettings.class, List.of(setsGit ? "set" : "check")) : null;
    if (said != null) {
      print(said.text());
    }
    if (said == null || said.status() != 0) {
      out.println(
          "WARNING: git gc and git maintenance, where someone runs them on Gerrit's repositories, can lose refs. Set for"
              + " user "
              + user.name()
              + ", or with --system for all: git config --global gc.packRefs false; git config --global"
              + " maintenance.pack-refs.enabled false");
    }
    return said != null && said.status() == 0;
  }

  private void print(String text) {
    if (!text.isEmpty()) {
      out.println(text);
    }
  }

  private void checkOthers(ConfigFile config, Set<GerritModule> wanted) throws InstallException {
    for (String key : List.of(DB_KEY, "installModule")) {
      for (String module : config.values(SECTION, key)) {
        if (module.contains("cachedrefdb") && wanted.contains(GerritModule.REFS)
            || module.contains("chroniclemap") && wanted.contains(GerritModule.CACHES)) {
          throw new InstallException(
              "the site uses "
                  + module
                  + ", which takes the same place as refdb: remove its lines from gerrit.config, or"
                  + " install refdb with --only");
        }
      }
    }
    for (String module : config.values(SECTION, DB_KEY)) {
      if (wanted.contains(GerritModule.REFS) && !module.startsWith("org.refdb.")) {
        out.println(
            "note: the site has gerrit." + DB_KEY + " = " + module + " as well. If that one wraps Gerrit's repositories"
                + " (multi-site, global-refdb), install refdb with --named; Gerrit will not start with two of a kind");
      }
    }
  }

  /** Checks platform, C library, folder and permissions by doing what Gerrit will do, as its user where possible. */
  private void tryAs(GerritUser user, Site site, ConfigFile config, List<Path> files)
      throws InstallException, IOException {
    Optional<String> problem = new SiteTrial(site, config, tried(user, site, config)).run(files);
    if (problem.isPresent()) {
      throw new InstallException(problem.get());
    }
  }

  /** Examines the repositories as Gerrit's user where possible, because that user may not read all that root may. */
  private void look(GerritUser user, Site site, ConfigFile config) throws InstallException, IOException {
    List<String> arguments = new ArrayList<>(List.of(site.nativeFolder(config).toString()));
    if (mayBeUnsafe(site)) {
      arguments.add(RepositoryLook.OVERRIDE);
    }
    site.repositories(config).forEach(place -> arguments.add(place.toString()));
    AsGerrit.Said said = new AsGerrit(site, config, tried(user, site, config)).run(RepositoryLook.class, arguments);
    print(said.text());
    requireSafe(said.status(), site.jgitConfig());
  }

  /**
   * Fails if {@link RepositoryLook} has found a repository to which refdb would refuse to write because of its storage,
   * or could not examine the repositories at all.
   */
  static void requireSafe(int status, Path jgitConfig) throws InstallException {
    if (status == RepositoryLook.UNSAFE) {
      throw new InstallException(
          "refdb would refuse to write to these repositories, because updates can be lost on their storage. Mount it"
              + " differently, or set refdb.unsafeStorage=true in "
              + jgitConfig);
    }
    if (status != 0) {
      throw new InstallException(
          "the repositories could not be examined, so it is not known whether updates can be lost on their storage."
              + " Nothing was changed");
    }
  }

  /** Returns whether the site lets refdb write where updates can be lost. */
  private static boolean mayBeUnsafe(Site site) throws IOException {
    List<String> values = ConfigFile.readOrNew(site.jgitConfig()).values("refdb", "unsafeStorage");
    return !values.isEmpty() && Set.of("true", "yes", "on", "1").contains(values.getLast().toLowerCase(Locale.ROOT));
  }

  /** Gerrit's user, or this process's user if it cannot act as that one. */
  private static GerritUser tried(GerritUser user, Site site, ConfigFile config) throws IOException {
    return new AsGerrit(site, config, user).obstacle().isEmpty() ? user : GerritUser.self();
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

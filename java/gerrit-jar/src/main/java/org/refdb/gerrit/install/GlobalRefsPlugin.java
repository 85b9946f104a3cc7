package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Installs the plugin of the global ref database into a site: its jar, and the addresses of etcd in gerrit.config. */
final class GlobalRefsPlugin {
  /** Prefix of the addresses on the command line. */
  static final String ETCD = "etcd=";

  private static final String JAR = "refdb-global.jar";
  private static final String SECTION = "refdb";
  private static final String SUBSECTION = "global";
  private static final String KEY = "etcd";

  private final Site site;
  private final ConfigFile config;

  GlobalRefsPlugin(Site site, ConfigFile config) {
    this.site = site;
    this.config = config;
  }

  Path jar() {
    return site.pluginJar().resolveSibling(JAR);
  }

  /** Checks the addresses and the site before anything is changed. */
  void check(String etcd) throws InstallException {
    if (!etcd.matches("https?://[^/,]+:\\d+(,https?://[^/,]+:\\d+)*")) {
      throw new InstallException(
          "--global etcd=" + etcd + ": write SCHEME://HOST:PORT with http or https, several with commas between them");
    }
    if (isNative()) {
      return;
    }
    Path module = site.lib().resolve("global-refdb.jar");
    if (!Files.exists(module)) {
      throw new InstallException(
          "there is no "
              + module
              + ": Gerrit's module global-refdb has the interface that refdb-global implements. Put it there"
              + " first; the plugins high-availability and multi-site need it too");
    }
  }

  /** Returns whether refdb's own ref database asks etcd, so that Gerrit's interface is not needed. */
  private boolean isNative() {
    return !config.values(SECTION, null, SUBSECTION).isEmpty();
  }

  /** Fails if native mode is configured, because without refdb JGit would update refs without asking etcd. */
  void requireNotNative() throws InstallException {
    if (isNative()) {
      throw new InstallException(
          "refdb.global is set in "
              + site.config()
              + ", and without refdb JGit would update refs that etcd decides of. Stop all"
              + " nodes, remove the setting, and run `git config --unset refdb.global` in each repository first");
    }
  }

  /** Copies the plugin to a site that wants it or has it. Returns what was done. */
  List<String> put(boolean wanted) throws IOException, InstallException {
    if (!wanted && !Files.exists(jar())) {
      return List.of();
    }
    try (InputStream content = GlobalRefsPlugin.class.getResourceAsStream("/plugins/" + JAR)) {
      if (content == null) {
        throw new InstallException("this jar is damaged: it has no plugins/" + JAR);
      }
      return List.of(OwnedFiles.put(jar(), content.readAllBytes()));
    }
  }

  /** Sets etcd's addresses. Returns whether the file changes. */
  boolean configure(String etcd) {
    List<String> before = config.values(SECTION, SUBSECTION, KEY);
    if (before.equals(List.of(etcd))) {
      return false;
    }
    before.forEach(value -> config.remove(SECTION, SUBSECTION, KEY, value));
    config.setUnlessSet(SECTION, SUBSECTION, KEY, etcd);
    return true;
  }

  /** Removes the addresses that the installer has set. Returns whether the file changes. */
  boolean unconfigure() {
    return config.unset(SECTION, SUBSECTION, KEY);
  }

  List<String> remove() throws IOException {
    return Files.deleteIfExists(jar()) ? List.of("removed " + jar()) : List.of();
  }
}

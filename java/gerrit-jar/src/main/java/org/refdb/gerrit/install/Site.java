package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;

/** A Gerrit site's folders, and what of refdb is in them. */
final class Site {
  private static final String LIB_JAR = "refdb-gerrit.jar";
  private static final String PLUGIN_JAR = "refdb.jar";

  private final Path folder;

  private Site(Path folder) {
    this.folder = folder;
  }

  static Site at(Path folder) throws InstallException {
    Site site = new Site(folder.toAbsolutePath().normalize());
    if (!Files.isRegularFile(site.config())) {
      throw new InstallException(folder + " is no Gerrit site: it has no etc/gerrit.config");
    }
    return site;
  }

  Path config() {
    return folder.resolve("etc/gerrit.config");
  }

  Path folder() {
    return folder;
  }

  Path secureConfig() {
    return folder.resolve("etc/secure.config");
  }

  Path lib() {
    return folder.resolve("lib");
  }

  Path pidFile() {
    return folder.resolve("logs/gerrit.pid");
  }

  Path war() {
    return folder.resolve("bin/gerrit.war");
  }

  Path nativeFolder() {
    return folder.resolve("data/refdb");
  }

  /** Whether a plugin or lib module whose file name contains a word is there. */
  boolean has(String word) throws IOException {
    for (String place : List.of("plugins", "lib")) {
      if (!jars(folder.resolve(place), "*" + word + "*.jar").isEmpty()) {
        return true;
      }
    }
    return false;
  }

  /** Puts both jars in place, and takes other copies of them out of the way. Returns what was written and removed. */
  List<String> putJars() throws IOException, InstallException {
    List<String> done = new ArrayList<>();
    Path lib = folder.resolve("lib");
    Files.createDirectories(lib);
    Path self = self();
    Path target = lib.resolve(LIB_JAR);
    if (!Files.exists(target) || !Files.isSameFile(self, target)) {
      try (InputStream content = Files.newInputStream(self)) {
        replace(target, content);
      }
      done.add("wrote " + target);
    }
    for (Path other : jars(lib, "refdb-gerrit*.jar")) {
      if (!other.getFileName().toString().equals(LIB_JAR)) {
        Files.delete(other);
        done.add("removed " + other + ", another copy of the lib module");
      }
    }
    Path plugins = folder.resolve("plugins");
    Files.createDirectories(plugins);
    try (InputStream content = Site.class.getResourceAsStream("/plugins/" + PLUGIN_JAR)) {
      if (content == null) {
        throw new InstallException("this jar is damaged: it has no plugins/" + PLUGIN_JAR);
      }
      replace(plugins.resolve(PLUGIN_JAR), content);
    }
    done.add("wrote " + plugins.resolve(PLUGIN_JAR));
    return done;
  }

  /** Removes both jars. Returns what was removed. */
  List<String> removeJars() throws IOException {
    List<String> done = new ArrayList<>();
    List<Path> ours = new ArrayList<>(jars(folder.resolve("lib"), "refdb-gerrit*.jar"));
    ours.addAll(jars(folder.resolve("plugins"), PLUGIN_JAR));
    for (Path jar : ours) {
      Files.delete(jar);
      done.add("removed " + jar);
    }
    return done;
  }

  /** A running Gerrit has the old file open: it keeps it, and the new one takes its name. */
  private static void replace(Path target, InputStream content) throws IOException {
    Path temporary = target.resolveSibling(target.getFileName() + ".refdb-new");
    Files.copy(content, temporary, StandardCopyOption.REPLACE_EXISTING);
    Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
  }

  private static List<Path> jars(Path place, String pattern) throws IOException {
    List<Path> found = new ArrayList<>();
    if (Files.isDirectory(place)) {
      try (DirectoryStream<Path> files = Files.newDirectoryStream(place, pattern)) {
        files.forEach(found::add);
      }
    }
    return found;
  }

  private static Path self() throws InstallException {
    try {
      Path path = Path.of(Site.class.getProtectionDomain().getCodeSource().getLocation().toURI());
      if (Files.isRegularFile(path)) {
        return path;
      }
    } catch (URISyntaxException e) {
      throw new InstallException("cannot tell where this jar is", e);
    }
    throw new InstallException("the installer must be run out of refdb-gerrit.jar");
  }
}

package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.refdb.engine.SiteLibrary;

/** The folders of a Gerrit site, and the parts of refdb in them. */
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

  Path jgitConfig() {
    return folder.resolve("etc/jgit.config");
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

  Path libJar() {
    return lib().resolve(LIB_JAR);
  }

  Path pluginJar() {
    return folder.resolve("plugins").resolve(PLUGIN_JAR);
  }

  /** Returns whether a jar of refdb is installed. */
  boolean hasRefdb() {
    return Files.exists(libJar()) || Files.exists(pluginJar());
  }

  Path pidFile() {
    return folder.resolve("logs/gerrit.pid");
  }

  /** Returns the process id of the site's running Gerrit; empty if none is running that its pid file names. */
  Optional<Long> runningServer() throws IOException {
    if (!Files.exists(pidFile())) {
      return Optional.empty();
    }
    String text = Files.readString(pidFile()).strip();
    return text.matches("\\d{1,18}")
        ? ProcessHandle.of(Long.parseLong(text)).map(ProcessHandle::pid).filter(this::mayBeGerrit)
        : Optional.empty();
  }

  /**
   * Returns whether a process may be Gerrit. This is checked because process ids are reused: in a container that was
   * started again, another process soon has the id that Gerrit had before. A process whose command line is empty or
   * cannot be read is taken for Gerrit.
   */
  private boolean mayBeGerrit(long pid) {
    try {
      String command = Files.readString(Path.of("/proc", String.valueOf(pid), "cmdline"), StandardCharsets.ISO_8859_1);
      List<String> signs = List.of("gerrit", "daemon", folder.toString().toLowerCase(Locale.ROOT));
      return command.isEmpty() || signs.stream().anyMatch(command.toLowerCase(Locale.ROOT)::contains);
    } catch (IOException e) {
      return true;
    }
  }

  Path war() {
    return folder.resolve("bin/gerrit.war");
  }

  /** The folder into which Gerrit unpacks the native library. */
  Path nativeFolder(ConfigFile config) {
    List<String> named = config.values(SiteLibrary.SECTION, SiteLibrary.KEY);
    return SiteLibrary.folder(folder, named.isEmpty() ? null : named.getLast());
  }

  /** The folders with repositories: the default one, and those that sections {@code repository} name. */
  List<Path> repositories(ConfigFile config) {
    List<String> paths = config.values("gerrit", "basePath");
    List<Path> places = new ArrayList<>();
    places.add(folder.resolve(paths.isEmpty() ? "git" : paths.getLast()));
    config.valuesInSubsections("repository", "basePath").forEach(path -> places.add(folder.resolve(path)));
    return places.stream().distinct().toList();
  }

  /** Returns whether there is a plugin or lib module whose file name contains a word. */
  boolean has(String word) throws IOException {
    for (String place : List.of("plugins", "lib")) {
      if (!jars(folder.resolve(place), "*" + word + "*.jar").isEmpty()) {
        return true;
      }
    }
    return false;
  }

  /** Fails if {@link #putJars} would delete this jar, which the installer still needs if it runs from it. */
  void requireToKeep(Path jar) throws IOException, InstallException {
    for (Path other : otherCopies()) {
      if (Files.isSameFile(other, jar)) {
        throw new InstallException(
            "the installation would replace " + jar + ", from which it runs, by " + libJar()
                + ": move it out of there first");
      }
    }
  }

  /** Returns the copies of the lib module that have another name than the installed one. */
  private List<Path> otherCopies() throws IOException {
    return jars(lib(), "refdb-gerrit*.jar").stream()
        .filter(jar -> !jar.getFileName().toString().equals(LIB_JAR))
        .toList();
  }

  /** Installs both jars, and removes other copies of the lib module. Returns what was done. */
  List<String> putJars() throws IOException, InstallException {
    List<String> done = new ArrayList<>();
    Path lib = lib();
    OwnedFiles.makeFolder(lib);
    Path self = self();
    Path target = libJar();
    if (!Files.exists(target) || !Files.isSameFile(self, target)) {
      done.add(OwnedFiles.put(target, Files.readAllBytes(self)));
    }
    for (Path other : otherCopies()) {
      Files.delete(other);
      done.add("removed " + other + ", another copy of the lib module");
    }
    OwnedFiles.makeFolder(pluginJar().getParent());
    try (InputStream content = Site.class.getResourceAsStream("/plugins/" + PLUGIN_JAR)) {
      if (content == null) {
        throw new InstallException("this jar is damaged: it has no plugins/" + PLUGIN_JAR);
      }
      done.add(OwnedFiles.put(pluginJar(), content.readAllBytes()));
    }
    return done;
  }

  /** Removes all copies of the lib module, and the plugin refdb. Returns a sentence for each. */
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

  private static List<Path> jars(Path place, String pattern) throws IOException {
    List<Path> found = new ArrayList<>();
    if (Files.isDirectory(place)) {
      try (DirectoryStream<Path> files = Files.newDirectoryStream(place, pattern)) {
        files.forEach(found::add);
      }
    }
    return found;
  }

  /** The jar from which this is run. */
  static Path self() throws InstallException {
    return jar().orElseThrow(() -> new InstallException("the installer must be run out of refdb-gerrit.jar"));
  }

  /** The jar from which this is run; empty if its classes are not in one. */
  static Optional<Path> jar() {
    try {
      Path path = Path.of(Site.class.getProtectionDomain().getCodeSource().getLocation().toURI());
      return Optional.of(path).filter(Files::isRegularFile);
    } catch (URISyntaxException e) {
      return Optional.empty();
    }
  }
}

package org.refdb.gerrit.install;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Runs programs of this jar in a separate JVM as Gerrit's user, with the Java that {@code container.javaHome} names, or
 * else with that of this process.
 */
final class AsGerrit {
  private static final List<Path> PLACES =
      List.of(Path.of("/usr/bin"), Path.of("/bin"), Path.of("/usr/sbin"), Path.of("/sbin"));

  private final Site site;
  private final GerritUser user;
  private final String java;

  AsGerrit(Site site, ConfigFile config, GerritUser user) {
    this.site = site;
    this.user = user;
    List<String> homes = config.values("container", "javaHome");
    String home = homes.isEmpty() || homes.getLast().isEmpty() ? System.getProperty("java.home") : homes.getLast();
    this.java = Path.of(home, "bin", "java").toString();
  }

  /** The output of a program and its exit status. */
  record Said(int status, String text) {}

  /** Returns why this process cannot act as Gerrit's user; empty if it can. */
  Optional<String> obstacle() throws IOException {
    if (user.isSelf()) {
      return Optional.empty();
    }
    String self = System.getProperty("user.name");
    if (!GerritUser.isRoot()) {
      return Optional.of(self + " is neither " + user.name() + " nor root");
    }
    return found("setpriv").or(() -> found("runuser")).isEmpty()
        ? Optional.of("this system has neither setpriv nor runuser (package util-linux)")
        : Optional.empty();
  }

  /** Runs a program with little output, waits for it, and returns its output and its exit status. */
  Said run(Class<?> program, List<String> arguments) throws IOException, InstallException {
    return run(program, arguments, false);
  }

  /** Runs a program with this process's standard input and output, waits for it, and returns its exit status. */
  int runHere(Class<?> program, List<String> arguments) throws IOException, InstallException {
    return run(program, arguments, true).status;
  }

  private Said run(Class<?> program, List<String> arguments, boolean isHere) throws IOException, InstallException {
    Path copy = user.isSelf() ? null : readableCopy();
    try {
      List<String> command = new ArrayList<>(prefix());
      String classPath = copy == null ? classPath() : copy.toString();
      command.addAll(List.of(java, "--enable-native-access=ALL-UNNAMED"));
      if (user.isSelf()) {
        command.add("-Duser.home=" + System.getProperty("user.home"));
      }
      command.addAll(List.of("-cp", classPath, program.getName()));
      command.addAll(arguments);
      ProcessBuilder builder = new ProcessBuilder(command);
      if (isHere) {
        builder.inheritIO();
      } else {
        builder.redirectErrorStream(true).directory(new File("/")); // a folder that every user may enter
      }
      Process process = builder.start();
      String text = isHere ? "" : new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      return new Said(process.waitFor(), text.strip());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    } finally {
      if (copy != null) {
        Files.delete(copy);
        Files.delete(copy.getParent());
      }
    }
  }

  /** Returns the words before a command that run it as Gerrit's user. */
  private List<String> prefix() throws IOException {
    if (user.isSelf()) {
      return List.of();
    }
    Optional<Path> setpriv = found("setpriv");
    if (setpriv.isEmpty()) {
      return List.of(found("runuser").orElseThrow().toString(), "-u", user.name(), "--");
    }
    Process id = new ProcessBuilder("id", "-g", user.name()).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    String group = new String(id.getInputStream().readAllBytes(), StandardCharsets.US_ASCII).strip();
    boolean isKnown = !group.isEmpty();
    return List.of(
        setpriv.get().toString(),
        "--reuid=" + user.name(),
        "--regid=" + (isKnown ? group : Files.getAttribute(site.folder(), "unix:gid")),
        isKnown ? "--init-groups" : "--clear-groups",
        "--");
  }

  private static Optional<Path> found(String program) {
    return PLACES.stream().map(place -> place.resolve(program)).filter(Files::isExecutable).findFirst();
  }

  private static String classPath() {
    return Site.jar().map(Path::toString).orElse(System.getProperty("java.class.path"));
  }

  /** Copies this jar to where Gerrit's user can read it. */
  private static Path readableCopy() throws IOException, InstallException {
    Path folder = Files.createTempDirectory("refdb-installer");
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
    Path copy = folder.resolve("refdb-gerrit.jar");
    Files.copy(Site.self(), copy);
    Files.setPosixFilePermissions(copy, PosixFilePermissions.fromString("rw-r--r--"));
    return copy;
  }
}

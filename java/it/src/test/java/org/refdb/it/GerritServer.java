package org.refdb.it;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A real Gerrit on loopback, started and stopped by scripts/gerrit/gerrit-site. */
final class GerritServer implements AutoCloseable {
  private static final Path SCRIPTS = Path.of(System.getProperty("refdb.scripts")).toAbsolutePath().normalize();
  /** refdb-gerrit.jar, as it was built. */
  static final Path JAR = Path.of(System.getProperty("refdb.gerrit.jar"));
  private static final String JAVA = Path.of(System.getProperty("java.home"), "bin/java").toString();

  /** Options of every Java of a site; scripts/gerrit/gerrit-site knows them too. */
  static final List<String> JVM =
      Stream.of(System.getenv().getOrDefault("REFDB_GERRIT_JVM", "").split(" ")).filter(word -> !word.isEmpty()).toList();

  private final Path site;
  private final int httpPort;
  private final int sshPort;

  private GerritServer(Path site, int httpPort, int sshPort) {
    this.site = site;
    this.httpPort = httpPort;
    this.sshPort = sshPort;
  }

  /** A new site, not started. */
  static GerritServer create(Path site) throws IOException {
    GerritServer server = new GerritServer(site, freePort(), freePort());
    server.script("new", String.valueOf(server.httpPort), String.valueOf(server.sshPort));
    return server;
  }

  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  Path site() {
    return site;
  }

  int sshPort() {
    return sshPort;
  }

  String url() {
    return "http://localhost:" + httpPort;
  }

  /** Runs refdb's installer on the site. */
  Commands.Output installer(String command, String... options) throws IOException {
    return installer(JAR, command, options);
  }

  /** Runs the installer of another jar. */
  Commands.Output installer(Path jar, String command, String... options) throws IOException {
    return Commands.attempt(site, java("--enable-native-access=ALL-UNNAMED", jar, options, command, site.toString()));
  }

  /** Runs one of Gerrit's offline programs on the site. */
  String offline(String program, String... options) throws IOException {
    return Commands.run(site, java("-Xmx1g", site.resolve("bin/gerrit.war"), options, program, "-d", site.toString()));
  }

  private String[] java(String jvmOption, Path jar, String[] options, String... words) {
    List<String> command = new ArrayList<>(List.of(JAVA, jvmOption));
    command.addAll(JVM);
    command.add("-Duser.home=" + site.resolve("tmp")); // where the installer changes the git configuration
    command.addAll(List.of("-jar", jar.toString()));
    command.addAll(List.of(words));
    command.addAll(List.of(options));
    return command.toArray(String[]::new);
  }

  void start() throws IOException {
    script("start");
  }

  /** Starts the server with these environment variables besides those of this process. */
  void start(Map<String, String> environment) throws IOException {
    List<String> command = new ArrayList<>(List.of("env"));
    environment.forEach((name, value) -> command.add(name + "=" + value));
    command.addAll(List.of(SCRIPTS.resolve("gerrit/gerrit-site").toString(), "start", site.toString()));
    Commands.run(SCRIPTS, command.toArray(String[]::new));
  }

  Commands.Output tryStart() throws IOException {
    return Commands.attempt(SCRIPTS, SCRIPTS.resolve("gerrit/gerrit-site").toString(), "start", site.toString());
  }

  void stop() throws IOException {
    script("stop");
  }

  /** Ends the process as a power cut would, as far as the process can tell. */
  void kill() throws IOException {
    ProcessHandle process = process();
    process.destroyForcibly();
    try {
      process.onExit().get(1, TimeUnit.MINUTES);
    } catch (Exception e) {
      throw new IOException("Gerrit survives SIGKILL", e);
    }
    Files.delete(pidFile());
  }

  /** Sends a signal such as STOP. */
  void signal(String name) throws IOException {
    Commands.run(site, "kill", "-" + name, Long.toString(process().pid()));
  }

  private ProcessHandle process() throws IOException {
    return ProcessHandle.of(Long.parseLong(Files.readString(pidFile()).strip())).orElseThrow();
  }

  private Path pidFile() {
    return site.resolve("logs/gerrit.pid");
  }

  /** What the server has logged so far. */
  String log() throws IOException {
    return Files.readString(site.resolve("logs/error_log"));
  }

  private void script(String verb, String... arguments) throws IOException {
    String[] words = new String[arguments.length + 3];
    words[0] = SCRIPTS.resolve("gerrit/gerrit-site").toString();
    words[1] = verb;
    words[2] = site.toString();
    System.arraycopy(arguments, 0, words, 3, arguments.length);
    Commands.run(SCRIPTS, words);
  }

  @Override
  public void close() throws IOException {
    stop();
  }
}

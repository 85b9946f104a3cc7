package org.refdb.it;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.refdb.gerrit.global.EtcdServer;
import org.refdb.gerrit.global.Proxy;

/** A real Gerrit in native mode. It has its own clock, and its own links to all members of etcd. */
final class GlobalNode implements AutoCloseable {
  /** The library of tests/histories/native/clock.c; empty where clocks stay as they are. */
  private static final String CLOCK = System.getProperty("refdb.clock", "");

  private final String name;
  private final GerritServer server;
  private final Rest rest;
  private final List<Proxy> links = new ArrayList<>();
  private final Path clock;
  private final Path git;
  private volatile boolean isUp;

  /**
   * A site that is not started.
   *
   * @param git the folder of repositories; null for one of its own
   */
  GlobalNode(Path scratch, String name, Cluster etcd, Path git, int slots) throws IOException {
    this.name = name;
    server = GerritServer.create(scratch.resolve(name));
    rest = new Rest(server.url(), "admin", "secret");
    clock = scratch.resolve(name + "-clock");
    jump(0);
    for (EtcdServer member : etcd.members()) {
      links.add(new Proxy(member.port()));
    }
    this.git = git == null ? server.site().resolve("git") : git;
    Path config = server.site().resolve("etc/gerrit.config");
    String settings =
        """
        [refdb]
        	global = etcd
        [refdb "global"]
        	requestTimeout = 1 s
        	timeout = 6 s
        	underLocks = 3 s
        	lease = 2 s
        	slots = %d
        [retry]
        	timeout = 2 s
        """
            .formatted(slots);
    Files.writeString(config, Files.readString(config).replace("basePath = git", "basePath = " + this.git) + settings);
    Files.writeString(
        server.site().resolve("etc/jgit.config"),
        "[core]\n\ttrustPackedRefsStat = after_open\n\ttrustLooseRefStat = after_open\n\ttrustTablesListStat = after_open\n",
        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    String urls = links.stream().map(Proxy::url).collect(Collectors.joining(","));
    Commands.Output installed = server.installer("install", "--global", "etcd=" + urls);
    if (installed.status() != 0) {
      throw new AssertionError(installed.text());
    }
  }

  String name() {
    return name;
  }

  GerritServer server() {
    return server;
  }

  Rest rest() {
    return rest;
  }

  List<Proxy> links() {
    return links;
  }

  void all(Proxy.Mode mode) {
    links.forEach(link -> link.mode(mode));
  }

  Path repository(String project) {
    return git.resolve(project + ".git");
  }

  void start() throws IOException {
    server.start(CLOCK.isEmpty() ? Map.of() : Map.of("LD_PRELOAD", CLOCK, "REFDB_TEST_CLOCK", clock.toString()));
    isUp = true;
  }

  /** Returns whether the node was started, and is not being killed or started again. */
  boolean isUp() {
    return isUp;
  }

  synchronized void kill() throws IOException {
    isUp = false;
    server.kill();
  }

  /** Stops the node for a while, unless it is being killed or started. A kill waits until the node goes on. */
  synchronized void pause(long millis) throws IOException, InterruptedException {
    if (isUp) {
      server.signal("STOP");
      Thread.sleep(millis);
      server.signal("CONT");
    }
  }

  /** Does the same as {@link #jump}, unless the node is being killed or started. */
  synchronized void jumpIfUp(long seconds) throws IOException {
    if (isUp) {
      jump(seconds);
    }
  }

  /** Sets its clock off by {@code seconds} from now on. */
  void jump(long seconds) throws IOException {
    byte[] bytes = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.nativeOrder()).putLong(seconds).array();
    // In its place: the process has it mapped.
    Files.write(clock, bytes, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
  }

  /** Returns the files of a project's open intents, except those that are not written to the end. */
  List<Path> intents(String project) throws IOException {
    Path folder = repository(project).resolve("refdb-global");
    if (!Files.exists(folder)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(folder)) {
      return files.filter(file -> !file.toString().endsWith(".new")).toList();
    }
  }

  /** Compares its disk with etcd; null if the node cannot tell. */
  JsonObject compared(String project) {
    try {
      Rest.Answer answer = rest.ask("POST", "/projects/" + project + "/refdb-global~compare", "{}");
      return answer.status() == 200 ? answer.json().getAsJsonObject() : null;
    } catch (IOException e) {
      return null;
    }
  }

  @Override
  public void close() throws IOException {
    try {
      server.close();
    } finally {
      links.forEach(Proxy::close);
    }
  }
}

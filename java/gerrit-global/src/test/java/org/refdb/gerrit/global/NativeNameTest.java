package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.config.SitePaths;
import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.global.etcd.NodeName;

/** The name of a node in native mode belongs to the server of its site, not to a program. */
@SuppressWarnings("try")
final class NativeNameTest {
  private static final String MAIN = "refs/heads/main";
  private static final Duration LONG = Duration.ofMinutes(2);

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();

  @TempDir Path site;

  private String prefix;

  @BeforeEach
  void choose() {
    prefix = Nodes.prefix();
  }

  private NativeMode mode(boolean isServer) throws Exception {
    Config config = new Config();
    config.setString("refdb", "global", "etcd", etcd.url());
    config.setString("refdb", "global", "prefix", prefix);
    return new NativeMode(config, new SitePaths(site), isServer);
  }

  private Path folder() {
    return site.resolve("data/refdb-native");
  }

  /** Returns the keys of etcd that contain the processes of all nodes, each of which has updated a ref. */
  private String nodes() throws Exception {
    return etcd.ctl("get", "--prefix", "--keys-only", prefix + "n/");
  }

  /** Previously, all updates of a server that {@code daemon --init} had started were refused. */
  @Test
  void aServerHasItThoughAProgramRanInItsProcess() throws Exception {
    try (DiskProject disk = DiskProject.create();
        NativeNode init = new NativeNode(disk.folder(), mode(false));
        NativeNode reindex = new NativeNode(disk.folder(), mode(false));
        NativeNode server = new NativeNode(disk.folder(), mode(true))) {
      assertEquals(Result.NEW, init.set(MAIN, disk.commit(1)));
      assertEquals(Result.FORCED, reindex.set(MAIN, disk.commit(2)));
      String programs = nodes();
      assertFalse(programs.replace(prefix + "n/program-", "").contains("n/"), programs);
      assertEquals(Result.FORCED, server.set(MAIN, disk.commit(3)));
      assertTrue(nodes().contains(prefix + "n/" + Files.readString(folder().resolve("node")).strip()), nodes());
    }
  }

  /** Previously, a server that started while a program ran was taken for a program itself. */
  @Test
  void aServerHasItThoughAProgramRunsBesideIt() throws Exception {
    try (DiskProject disk = DiskProject.create()) {
      try (Started program = start(disk, false)) {
        assertTrue(program.process.isAlive());
        assertFalse(NativeMode.nodeOf(folder(), Duration.ZERO).isOfProgram());
      }
    }
  }

  @Test
  void aServerWaitsUntilAnotherOneHasEnded() throws Exception {
    try (DiskProject disk = DiskProject.create()) {
      try (Started other = start(disk, true)) {
        assertTrue(NativeMode.nodeOf(folder(), Duration.ZERO).isOfProgram(), "the other one has it");
        CompletableFuture<NodeName> waiting = Nodes.later(() -> NativeMode.nodeOf(folder(), LONG));
        Thread.sleep(1500);
        assertFalse(waiting.isDone());
        other.close();
        assertEquals(Files.readString(folder().resolve("node")).strip(), waiting.get().name());
      }
      assertTrue(NativeMode.nodeOf(folder(), LONG).isOfProgram(), "a second server in this process has another name");
    }
  }

  private record Started(Process process, BufferedReader said) implements AutoCloseable {
    @Override
    public void close() throws Exception {
      process.destroyForcibly().waitFor();
      said.close();
    }
  }

  /** Starts a process in which native mode is open. */
  private Started start(DiskProject disk, boolean isServer) throws Exception {
    Process process =
        NativeChild.start(
            ProgramChild.class, etcd.url(), prefix, site.toString(), disk.folder().toString(), MAIN,
            disk.commit(1).name(), Boolean.toString(isServer));
    BufferedReader said = process.inputReader();
    assertTrue(said.lines().anyMatch("NEW"::equals));
    return new Started(process, said);
  }
}

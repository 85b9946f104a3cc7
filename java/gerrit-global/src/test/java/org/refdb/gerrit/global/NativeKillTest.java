package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** A node in native mode is killed where it waits for etcd. Its next process settles what it left. */
final class NativeKillTest {
  private static final String PROJECT = NativeNode.PROJECT;
  private static final String MAIN = "refs/heads/main";
  private static final String NODE = "killed";

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();

  private Proxy proxy;
  private String prefix;
  private DiskProject disk;
  private GlobalRefs other;
  private ObjectId first;
  private ObjectId second;

  @BeforeEach
  void prepare() throws Exception {
    proxy = new Proxy(etcd.port());
    prefix = Nodes.prefix();
    disk = DiskProject.create();
    first = disk.commit(1);
    second = disk.commit(2);
    other = Nodes.open(etcd.url(), prefix);
  }

  @AfterEach
  void close() throws Exception {
    other.close();
    disk.close();
    proxy.close();
  }

  private NativeNode open() throws Exception {
    return new NativeNode(disk.folder(), new GlobalRefs(Nodes.settings(etcd.url(), prefix), NodeName.of(NODE)));
  }

  /** A node in another process, which sets the ref. Its link to etcd is the proxy. */
  private Process child() throws Exception {
    return NativeChild.start(proxy.url(), prefix, NODE, disk.folder().toString(), MAIN, second.name());
  }

  private Optional<String> there() throws GlobalRefException {
    return other.read(PROJECT, MAIN).value();
  }

  private void begin(boolean isReftable) throws Exception {
    NativeNode.convert(disk.folder(), isReftable);
    try (NativeNode node = open()) {
      assertEquals(Result.NEW, node.set(MAIN, first));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = false)
  void beforeItsIntent(boolean isReftable) throws Exception {
    begin(isReftable);
    proxy.mode(Proxy.Mode.HELD);
    Process child = child();
    // The node claims its marks first, under the locks of the refs.
    Nodes.await(() -> proxy.heldBytes() > 0);
    child.destroyForcibly().waitFor();
    assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
    proxy.mode(Proxy.Mode.OPEN);
    try (NativeNode node = open()) {
      assertEquals(Optional.of(first), node.value(MAIN));
      assertEquals(Result.FORCED, node.set(MAIN, second));
      proxy.deliverHeld();
      assertEquals(Result.FORCED, node.set(MAIN, first));
      assertEquals(Optional.of(first.name()), there());
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void afterItsIntentAndBeforeEtcdHeardOfIt(boolean isReftable) throws Exception {
    begin(isReftable);
    // The request that follows the intent is the first one that names the ref.
    proxy.modeFrom(MAIN, Proxy.Mode.HELD);
    Process child = child();
    Nodes.await(() -> proxy.heldBytes() > 0);
    child.destroyForcibly().waitFor();
    assertEquals(1, NativeNode.intentsIn(disk.folder()).size());
    assertEquals(Optional.of(first.name()), there());
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    try (NativeNode node = open()) {
      assertEquals(Optional.of(first), node.value(MAIN));
      Nodes.await(() -> node.intents() == 0);
      // The killed process's request arrives now. The new one has not claimed marks yet, but has closed the intent's.
      proxy.deliverHeld();
      for (int i = 0; i < 50; i++) {
        assertEquals(Optional.of(first.name()), there());
        Thread.sleep(10);
      }
      assertEquals(Result.FORCED, node.set(MAIN, second));
      assertEquals(Result.FORCED, node.set(MAIN, first));
      assertEquals(Optional.of(first.name()), there());
      assertEquals(Optional.of(first), node.value(MAIN));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void afterEtcdAgreedAndBeforeTheDiskHasIt(boolean isReftable) throws Exception {
    begin(isReftable);
    proxy.modeFrom(MAIN, Proxy.Mode.NO_ANSWERS);
    Process child = child();
    Nodes.await(() -> there().equals(Optional.of(second.name())));
    child.destroyForcibly().waitFor();
    assertEquals(1, NativeNode.intentsIn(disk.folder()).size());
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    try (NativeNode node = open()) {
      Nodes.await(() -> node.intents() == 0);
      assertEquals(Optional.of(second), node.value(MAIN), "etcd has it, so the disk gets it");
      assertEquals(Result.FORCED, node.set(MAIN, first));
    }
    assertEquals(Optional.of(first.name()), there());
  }

  @ParameterizedTest
  @ValueSource(booleans = true)
  void notAtAll(boolean isReftable) throws Exception {
    begin(isReftable);
    Process child = child();
    String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, child.waitFor(), said);
    assertTrue(said.contains("FORCED"), said);
    assertFalse(there().equals(Optional.of(first.name())));
    try (NativeNode node = open()) {
      assertEquals(Optional.of(second), node.value(MAIN));
    }
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.refs.GlobalSettled;

/**
 * An administrator settles the intents that a dead node of the same disk has left, but not those of a node that is at
 * work.
 */
final class NativeSettleTest {
  private static final String MAIN = "refs/heads/main";

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();

  private Proxy proxy;
  private String prefix;
  private DiskProject disk;
  private ObjectId first;
  private ObjectId second;
  private final List<String> said = new ArrayList<>();

  @BeforeEach
  void prepare() throws Exception {
    proxy = new Proxy(etcd.port());
    prefix = Nodes.prefix();
    disk = DiskProject.create();
    first = disk.commit(1);
    second = disk.commit(2);
  }

  @AfterEach
  void close() throws Exception {
    disk.close();
    proxy.close();
  }

  private NativeNode open(String url) throws Exception {
    return new NativeNode(disk.folder(), Nodes.open(url, prefix));
  }

  private void begin(boolean isReftable) throws Exception {
    NativeNode.convert(disk.folder(), isReftable);
    try (NativeNode node = open(etcd.url())) {
      assertEquals(Result.NEW, node.set(MAIN, first));
    }
  }

  /** Kills another process, which has a node name of its own, as soon as {@code when} holds. */
  private void kill(Callable<Boolean> when) throws Exception {
    Process child = NativeChild.start(proxy.url(), prefix, "dead", disk.folder().toString(), MAIN, second.name());
    Nodes.await(when);
    child.destroyForcibly().waitFor();
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
  }

  private void assertSettled(NativeNode node, String word) throws Exception {
    assertEquals(1, node.intents(), "it is another node's, so nobody has settled it");
    assertEquals(new GlobalSettled(1, 0, 0), node.settle(true, said));
    assertTrue(said.getFirst().contains("node dead") && said.getFirst().contains("would be " + word), said.toString());
    assertEquals(1, node.intents());
    assertEquals(Optional.of(first), node.value(MAIN));
    assertEquals(new GlobalSettled(1, 0, 0), node.settle(false, said));
    assertTrue(said.getLast().endsWith(": " + word), said.toString());
    assertEquals(0, node.intents());
    assertEquals(GlobalSettled.NONE, node.settle(false, said));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatEtcdHasIsFinished(boolean isReftable) throws Exception {
    begin(isReftable);
    try (GlobalRefs other = Nodes.open(etcd.url(), prefix);
        NativeNode node = open(etcd.url())) {
      proxy.modeFrom(MAIN, Proxy.Mode.NO_ANSWERS);
      kill(() -> other.read(NativeNode.PROJECT, MAIN).value().equals(Optional.of(second.name())));
      assertSettled(node, "finished");
      assertEquals(Optional.of(second), node.value(MAIN));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatEtcdHasNotIsDroppedAndNeverComesLate(boolean isReftable) throws Exception {
    begin(isReftable);
    try (GlobalRefs other = Nodes.open(etcd.url(), prefix);
        NativeNode node = open(etcd.url())) {
      proxy.modeFrom(MAIN, Proxy.Mode.HELD);
      kill(() -> proxy.heldBytes() > 0);
      assertSettled(node, "dropped");
      proxy.deliverHeld();
      assertEquals(Result.FORCED, node.set(MAIN, second));
      assertEquals(Result.FORCED, node.set(MAIN, first));
      assertEquals(Optional.of(first.name()), other.read(NativeNode.PROJECT, MAIN).value());
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anUpdateThatIsUnderWayIsLeftAlone(boolean isReftable) throws Exception {
    begin(isReftable);
    try (NativeNode slow = open(proxy.url());
        NativeNode node = open(etcd.url())) {
      assertEquals(Result.FORCED, slow.set(MAIN, second));
      proxy.modeFrom(MAIN, Proxy.Mode.HELD);
      CompletableFuture<Result> update = Nodes.later(() -> slow.set(MAIN, first));
      Nodes.await(() -> proxy.heldBytes() > 0);
      assertEquals(new GlobalSettled(0, 1, 0), node.settle(false, said), "it has the locks");
      assertTrue(said.getLast().contains("is under way"), said.toString());
      assertEquals(new GlobalSettled(0, 1, 0), slow.settle(false, said), "it is this process's own");
      assertEquals(1, node.intents());
      proxy.mode(Proxy.Mode.OPEN);
      proxy.deliverHeld();
      assertEquals(Result.FORCED, update.get());
      assertEquals(Optional.of(first), node.value(MAIN));
      assertEquals(0, node.intents());
    }
  }

  /** Previously, the ref got the intent's value a second time, though etcd had given it another one since. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aSettlementThatIsLateUndoesNoNewerUpdate(boolean isReftable) throws Exception {
    begin(isReftable);
    try (GlobalRefs other = Nodes.open(etcd.url(), prefix);
        NativeNode late = open(proxy.url());
        NativeNode node = open(etcd.url())) {
      proxy.modeFrom(MAIN, Proxy.Mode.NO_ANSWERS);
      kill(() -> other.read(NativeNode.PROJECT, MAIN).value().equals(Optional.of(second.name())));
      proxy.modeFrom(MAIN, Proxy.Mode.LATE_ANSWERS);
      CompletableFuture<GlobalSettled> settlement = Nodes.later(() -> late.settle(false, said));
      Nodes.await(() -> proxy.lateBytes() > 0);
      assertEquals(Result.FORCED, node.set(MAIN, disk.commit(3)), "it meets the intent and settles it");
      assertEquals(0, node.intents());
      assertEquals(Result.FORCED, node.set(MAIN, first));
      proxy.mode(Proxy.Mode.OPEN);
      proxy.deliverHeld();
      settlement.get();
      assertEquals(Optional.of(first.name()), other.read(NativeNode.PROJECT, MAIN).value());
      assertEquals(Optional.of(first), node.value(MAIN));
    }
  }
}

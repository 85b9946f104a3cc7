package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.GetOption;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.global.disk.Compare;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.transaction.Decider;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.transaction.Stage;
import org.refdb.gerrit.global.transaction.Values;

/** Batches that etcd does not take at once, on a real etcd. Answers get lost, and a node is killed at each step. */
final class NativeBatchTest {
  private static final String PROJECT = NativeNode.PROJECT;
  private static final String MANY = "refs/heads/many";
  private static final String NODE = "large";
  private static final List<String> NAMES = NativeChild.below(MANY, 400);

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
    other = Nodes.openHastyNative(etcd.url(), prefix);
  }

  @AfterEach
  void close() throws Exception {
    other.close();
    disk.close();
    proxy.close();
  }

  private NativeNode open(boolean isReftable) throws Exception {
    NativeNode.convert(disk.folder(), isReftable);
    return new NativeNode(disk.folder(), new GlobalRefs(Nodes.settings(etcd.url(), prefix), NodeName.of(NODE)));
  }

  private Optional<String> there(String ref) throws GlobalRefException {
    return other.read(PROJECT, ref).value();
  }

  private static void assertAllMade(List<ReceiveCommand> commands) {
    commands.forEach(made -> assertEquals(ReceiveCommand.Result.OK, made.getResult(), made.getMessage()));
  }

  private List<KeyValue> below(String key) throws GlobalRefException {
    GetOption all = GetOption.builder().isPrefix(true).build();
    return other.etcd().read(Keys.bytes(prefix + key), all, other.deadline()).getKvs();
  }

  private void awaitCleared() throws Exception {
    Nodes.await(() -> below("b/").isEmpty() && below("c/").isEmpty());
    assertTrue(below("v/").stream().noneMatch(Stage::is));
  }

  private void assertEverywhere(NativeNode node, Optional<ObjectId> id) throws Exception {
    Optional<String> value = id.map(ObjectId::name);
    assertEquals(
        NAMES.stream().map(name -> value).toList(),
        other.values(PROJECT, NAMES).stream().map(Values::live).toList());
    for (String name : NAMES) {
      assertEquals(id, node.value(name), name);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aBatchBeyondEtcdsLimitsIsWholeAndLeavesNoStage(boolean isReftable) throws Exception {
    try (NativeNode node = open(isReftable)) {
      assertAllMade(node.create(true, NAMES, first));
      assertEverywhere(node, Optional.of(first));
      awaitCleared();
      assertAllMade(node.move(NAMES, first, second));
      // Right away, while stages may still be there.
      assertEquals(Result.FORCED, node.set(NAMES.get(7), first));
      assertAllMade(node.move(List.of(NAMES.get(7)), first, second));
      assertAllMade(node.move(NAMES, second, ObjectId.zeroId()));
      assertAllMade(node.create(true, NAMES, second));
      assertEverywhere(node, Optional.of(second));
      awaitCleared();
      assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
    }
  }

  @Test
  void aDecidingKeyThatIsNotUnderstoodKeepsNoOtherBatchFromBeingCleared() throws Exception {
    etcd.ctl("put", prefix + "b/a/1", "rubbish");
    try (NativeNode node = open(false)) {
      assertAllMade(node.create(true, NAMES, first));
      Nodes.await(() -> below("b/").size() == 1 && below("c/").isEmpty());
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void oneRefThatAnotherNodeMovedRefusesAll(boolean isReftable) throws Exception {
    try (NativeNode node = open(isReftable)) {
      String moved = NAMES.get(300);
      assertTrue(other.compareAndPut(PROJECT, moved, new Expected.Nothing(), second.name(), false));
      List<ReceiveCommand> refused = node.create(true, NAMES, first);
      assertTrue(
          refused.getFirst().getMessage().contains("etcd has " + second.name() + " for " + moved),
          refused.getFirst().getMessage());
      assertTrue(refused.getFirst().getMessage().contains("node " + other.nodeName()), refused.getFirst().getMessage());
      for (String name : NAMES) {
        assertEquals(Optional.empty(), node.value(name));
        assertEquals(Optional.of(second.name()).filter(id -> name.equals(moved)), there(name), name);
      }
      awaitCleared();
      assertEquals(
          List.of(moved),
          below("v/").stream()
              .map(entry -> entry.getKey().toString())
              .map(key -> key.substring(key.indexOf("refs/")))
              .toList());
      // etcd lets a node bring its disk up to etcd's values, in a batch too.
      assertAllMade(node.create(true, NAMES, second));
      assertEverywhere(node, Optional.of(second));
    }
  }

  private void putPatiently(String ref, ObjectId from, ObjectId to) throws Exception {
    for (int i = 0; ; i++) {
      try {
        assertTrue(other.compareAndPut(PROJECT, ref, new Expected.Is(from.name()), to.name(), false));
        return;
      } catch (GlobalRefException e) {
        // The other batch may not be old enough to be closed, or etcd is slow on a busy machine.
        if (i == 100) {
          throw e;
        }
      }
    }
  }

  private String decision() throws GlobalRefException {
    return Decider.text(Decider.State.DONE, other.projects().look(PROJECT, other.deadline()).orElseThrow());
  }

  @Test
  void aBatchThatHoldsOthersUpIsVoidAndNeverComesLate() throws Exception {
    GlobalRefs slow = new GlobalRefs(Nodes.hasty(List.of(proxy.url()), prefix), NodeName.of(NODE));
    NativeNode.convert(disk.folder(), false);
    try (NativeNode node = new NativeNode(disk.folder(), slow)) {
      assertAllMade(node.create(true, NAMES, first));
      awaitCleared();
      proxy.modeFrom(decision(), Proxy.Mode.HELD);
      CompletableFuture<List<ReceiveCommand>> batch = Nodes.later(() -> node.move(NAMES, first, second));
      Nodes.await(() -> proxy.heldBytes() > 0);
      assertEquals(NAMES.size(), below("v/").stream().filter(Stage::is).count());
      assertEquals(Optional.of(first.name()), there(NAMES.getFirst()), "the old value, while it is not decided");
      // A writer that wants a staged ref waits for its own refdb.global.underLocks, and then closes the deciding key.
      putPatiently(NAMES.getLast(), first, Nodes.id(9));
      proxy.hangUp();
      proxy.mode(Proxy.Mode.OPEN);
      proxy.deliverHeld();
      assertNotEquals(ReceiveCommand.Result.OK, batch.get().getFirst().getResult());
      Nodes.await(() -> node.intents() == 0);
      awaitCleared();
      assertEquals(Optional.of(Nodes.id(9).name()), there(NAMES.getLast()));
      for (String name : NAMES.subList(0, NAMES.size() - 1)) {
        assertEquals(Optional.of(first.name()), there(name), name);
        assertEquals(Optional.of(first), node.value(name), name);
      }
    }
  }

  @Test
  @SuppressWarnings("try") // the other node works by itself
  void whatComesLateOfAnotherNodeChangesNothing() throws Exception {
    other.close();
    other = Nodes.open(etcd.url(), prefix);
    GlobalRefs patient = new GlobalRefs(Nodes.settings(proxy.url(), prefix), NodeName.of(NODE));
    try (Proxy link = new Proxy(etcd.port());
        NativeNode node = new NativeNode(disk.folder(), patient)) {
      assertAllMade(node.create(true, NAMES, first));
      awaitCleared();
      proxy.modeFrom(decision(), Proxy.Mode.HELD);
      CompletableFuture<List<ReceiveCommand>> batch = Nodes.later(() -> node.move(NAMES, first, second));
      Nodes.await(() -> proxy.heldBytes() > 0);
      link.modeFrom(decision().replace("DONE", "VOID"), Proxy.Mode.HELD);
      try (GlobalRefs hasty = Nodes.openHastyNative(link.url(), prefix)) {
        CompletableFuture<Boolean> put =
            Nodes.later(() -> other.compareAndPut(PROJECT, NAMES.get(9), new Expected.Anything(), "17", false));
        Nodes.await(() -> link.heldBytes() > 0);
        assertFalse(put.isDone(), "a put that compares nothing waits for the decision");
        // The batch is decided, but its node cannot clear its stages.
        proxy.modeFrom(prefix + "c/", Proxy.Mode.HELD);
        proxy.mode(Proxy.Mode.OPEN);
        proxy.deliverHeld();
        assertAllMade(batch.get());
        link.modeFrom(second.name(), Proxy.Mode.HELD);
        link.mode(Proxy.Mode.OPEN);
        link.deliverHeld();
        // The other node finds the batch decided, and clears its stages.
        Nodes.await(() -> link.heldBytes() > 0);
        assertEquals(Optional.of(second.name()), there(NAMES.getLast()), "it is not taken back");
        assertTrue(put.get());
        assertEquals(Optional.of("17"), there(NAMES.get(9)));
        assertTrue(
            other.compareAndPut(
                PROJECT,
                NAMES.getFirst(),
                new Expected.Is(second.name()),
                Nodes.id(9).name(),
                false));
        link.hangUp();
        link.mode(Proxy.Mode.OPEN);
        link.deliverHeld();
        awaitCleared();
        assertEquals(Optional.of(Nodes.id(9).name()), there(NAMES.getFirst()), "a later update is not overwritten");
        assertEquals(Optional.of(second.name()), there(NAMES.getLast()));
      }
      proxy.hangUp();
      proxy.mode(Proxy.Mode.OPEN);
      proxy.deliverHeld();
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 150, 399})
  void aLostAnswerOfAPartIsFoundOut(int at) throws Exception {
    GlobalRefs hasty = new GlobalRefs(Nodes.hasty(List.of(proxy.url()), prefix), NodeName.of(NODE));
    try (NativeNode node = new NativeNode(disk.folder(), hasty)) {
      node.set("refs/heads/main", first);
      proxy.modeFrom(NAMES.get(at), Proxy.Mode.NO_ANSWERS);
      CompletableFuture.runAsync(this::openAgain);
      List<ReceiveCommand> made = node.create(true, NAMES, first);
      // On a busy machine the batch may have taken too long; then nothing of it is there.
      boolean isMade = made.getFirst().getResult() == ReceiveCommand.Result.OK;
      Nodes.await(() -> node.intents() == 0);
      Optional<ObjectId> now = node.value(NAMES.getFirst());
      assertTrue(!isMade || now.isPresent());
      assertEverywhere(node, now);
      awaitCleared();
    }
  }

  private void openAgain() {
    try {
      Thread.sleep(300);
      Nodes.await(() -> below("v/").stream().anyMatch(Stage::is));
      Thread.sleep(500);
      proxy.hangUp();
      proxy.mode(Proxy.Mode.OPEN);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** The node's next start gives its batch up, a late request changes nothing, and the batch can be made anew. */
  private void assertGivenUp() throws Exception {
    try (NativeNode node = reopen()) {
      Nodes.await(() -> node.intents() == 0);
      proxy.deliverHeld();
      assertEverywhere(node, Optional.empty());
      awaitCleared();
      assertAllMade(node.create(true, NAMES, first));
      assertEverywhere(node, Optional.of(first));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void killedWhileItStages(boolean isReftable) throws Exception {
    begin(isReftable);
    proxy.modeFrom(NAMES.get(200), Proxy.Mode.HELD);
    killWhen(() -> proxy.heldBytes() > 0);
    assertTrue(below("v/").stream().anyMatch(Stage::is));
    assertGivenUp();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void killedBeforeItIsDecided(boolean isReftable) throws Exception {
    begin(isReftable);
    proxy.modeFrom(decision(), Proxy.Mode.HELD);
    killWhen(() -> proxy.heldBytes() > 0);
    assertEquals(NAMES.size(), below("v/").stream().filter(Stage::is).count());
    assertEquals(Optional.empty(), there(NAMES.getFirst()));
    assertGivenUp();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void killedAfterItWasDecided(boolean isReftable) throws Exception {
    begin(isReftable);
    proxy.modeFrom(decision(), Proxy.Mode.NO_ANSWERS);
    killWhen(() -> there(NAMES.getFirst()).isPresent());
    try (NativeNode node = reopen()) {
      Nodes.await(() -> node.intents() == 0);
      assertEverywhere(node, Optional.of(second));
      awaitCleared();
    }
  }

  @Test
  void whatADeadNodeLeavesOthersClearUp() throws Exception {
    begin(false);
    proxy.modeFrom(decision(), Proxy.Mode.HELD);
    killWhen(() -> proxy.heldBytes() > 0);
    // The node never comes back. No reader and no writer is needed to clear its stages.
    awaitCleared();
    assertEquals(
        0,
        below(
                "v/"
                    + other.projects().look(PROJECT, other.deadline()).orElseThrow().id()
                    + '/'
                    + MANY)
            .size());
    proxy.deliverHeld();
    assertTrue(other.compareAndPut(PROJECT, NAMES.getFirst(), new Expected.Nothing(), first.name(), false));
  }

  @Test
  void anImportAndAPutWithoutACompareWaitForTheDecision() throws Exception {
    begin(false);
    proxy.modeFrom(decision(), Proxy.Mode.NO_ANSWERS);
    killWhen(() -> there(NAMES.getFirst()).isPresent());
    try (GlobalRefs patient = Nodes.open(etcd.url(), prefix)) {
      assertTrue(patient.compareAndPut(PROJECT, NAMES.get(1), new Expected.Anything(), "17", false));
      try (DiskRefs refs = disk.refs()) {
        new Import(patient).run(refs, (put, there) -> {});
      }
    }
    awaitCleared();
    assertEquals(Optional.of("17"), there(NAMES.get(1)));
    assertEquals(Optional.of(second.name()), there(NAMES.get(2)));
  }

  @Test
  void anImportTakesUpTheRefsOfABatchThatIsGivenUp() throws Exception {
    for (String name : NAMES) {
      disk.set(name, first);
    }
    GlobalRefs patient = new GlobalRefs(Nodes.settings(proxy.url(), prefix), NodeName.of(NODE));
    try (NativeNode node = new NativeNode(disk.folder(), patient);
        DiskRefs refs = disk.refs()) {
      node.set("refs/heads/main", first);
      proxy.modeFrom(decision(), Proxy.Mode.HELD);
      CompletableFuture<List<ReceiveCommand>> batch = Nodes.later(() -> node.move(NAMES, first, second));
      Nodes.await(() -> proxy.heldBytes() > 0);
      importPatiently(refs);
      awaitCleared();
      proxy.mode(Proxy.Mode.OPEN);
      proxy.deliverHeld();
      assertNotEquals(ReceiveCommand.Result.OK, batch.get().getFirst().getResult());
      assertTrue(new Compare(other, refs).run(10, one -> {}).isClean());
      assertEverywhere(node, Optional.of(first));
    }
  }

  private void importPatiently(DiskRefs refs) throws Exception {
    for (int i = 0; ; i++) {
      try {
        new Import(other).run(refs, (put, there) -> {});
        return;
      } catch (GlobalRefException e) {
        if (i == 100) {
          throw e;
        }
      }
    }
  }

  private void begin(boolean isReftable) throws Exception {
    try (NativeNode node = open(isReftable)) {
      assertEquals(Result.NEW, node.set("refs/heads/main", first));
    }
  }

  private void killWhen(Callable<Boolean> what) throws Exception {
    Process child =
        NativeChild.start(
            proxy.url(),
            prefix,
            NODE,
            disk.folder().toString(),
            MANY,
            second.name(),
            Integer.toString(NAMES.size()));
    Nodes.await(what);
    child.destroyForcibly().waitFor();
    assertEquals(1, NativeNode.intentsIn(disk.folder()).size());
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
  }

  private NativeNode reopen() throws Exception {
    return new NativeNode(disk.folder(), new GlobalRefs(Nodes.settings(etcd.url(), prefix), NodeName.of(NODE)));
  }
}

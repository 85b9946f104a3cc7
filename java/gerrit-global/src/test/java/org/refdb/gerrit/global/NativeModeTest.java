package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.await;

import com.google.gerrit.server.config.SitePaths;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.engine.EngineException;
import org.refdb.engine.RefBatch;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.jgit.NotAgreedException;

/** Native mode on a real etcd: the engine asks between prepare and commit, and open intents are settled. */
final class NativeModeTest {
  private static final String PROJECT = NativeNode.PROJECT;
  private static final String MAIN = "refs/heads/main";
  private static final Set<Result> SUCCESS = EnumSet.of(Result.NEW, Result.FORCED, Result.NO_CHANGE);

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();

  private Proxy proxy;
  private String prefix;
  private DiskProject disk;
  private GlobalRefs other;
  private NativeNode node;
  private List<ObjectId> ids;

  @BeforeEach
  void prepare() throws Exception {
    proxy = new Proxy(etcd.port());
    prefix = Nodes.prefix();
    disk = DiskProject.create();
    ids = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      ids.add(disk.commit(i));
    }
    other = Nodes.open(etcd.url(), prefix);
  }

  @AfterEach
  void close() throws Exception {
    if (node != null) {
      node.close();
    }
    other.close();
    disk.close();
    proxy.close();
  }

  private void open(boolean isReftable) throws Exception {
    NativeNode.convert(disk.folder(), isReftable);
    node = new NativeNode(disk.folder(), Nodes.open(proxy.url(), prefix));
  }

  /** Opens a node that soon gives up, and sets the first value. */
  private void openHasty(boolean isReftable) throws Exception {
    NativeNode.convert(disk.folder(), isReftable);
    node = new NativeNode(disk.folder(), Nodes.openHastyNative(proxy.url(), prefix));
    surely(ids.get(0));
  }

  /** Sets the ref, however long etcd takes on a busy machine. */
  private void surely(ObjectId id) throws Exception {
    await(
        () -> {
          try {
            return SUCCESS.contains(node.set(MAIN, id));
          } catch (NotAgreedException e) {
            return false;
          }
        });
  }

  private Optional<String> there(String ref) throws GlobalRefException {
    return other.read(PROJECT, ref).value();
  }

  private boolean put(String ref, ObjectId from, ObjectId to) throws GlobalRefException {
    return other.compareAndPut(PROJECT, ref, new Expected.Is(from.name()), to.name(), false);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatIsOnDiskIsInEtcd(boolean isReftable) throws Exception {
    open(isReftable);
    assertEquals(Result.NEW, node.set(MAIN, ids.get(0)));
    assertEquals(Optional.of(ids.get(0).name()), there(MAIN));
    assertEquals(Result.FORCED, node.set(MAIN, ids.get(1)));
    assertEquals(Optional.of(ids.get(1).name()), there(MAIN));
    assertEquals(Result.FORCED, node.set(MAIN, null));
    assertEquals(Optional.of("0".repeat(40)), there(MAIN));
    assertEquals(Result.NEW, node.set(MAIN, ids.get(2)), "what was deleted may be there again");
    assertEquals(Optional.of(ids.get(2).name()), there(MAIN));
    for (ReceiveCommand made : node.create(true, List.of("refs/heads/a", "refs/heads/b"), ids.get(3))) {
      assertEquals(ReceiveCommand.Result.OK, made.getResult(), made.getMessage());
      assertEquals(Optional.of(ids.get(3).name()), there(made.getRefName()));
    }
    // Etcd is not asked about refs that the settings leave out.
    assertEquals(Result.NEW, node.set("refs/changes/01/1/1", ids.get(0)));
    assertEquals(Optional.empty(), there("refs/changes/01/1/1"));
    assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
    // A writer that does not ask etcd is refused.
    RefBatch plain = new RefBatch(true, false);
    plain.edit(MAIN).delete().expectAnything().end(false, null, false);
    EngineException refused = assertThrows(EngineException.class, () -> node.refs.view().commit(plain));
    assertTrue(refused.getMessage().contains("refdb.global = etcd"), refused.getMessage());
    assertEquals(Optional.of(ids.get(2)), node.value(MAIN));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aValueThatAnotherNodeSetIsNotOverwritten(boolean isReftable) throws Exception {
    open(isReftable);
    node.set(MAIN, ids.get(0));
    assertTrue(put(MAIN, ids.get(0), ids.get(1)));
    assertEquals(Result.LOCK_FAILURE, node.set(MAIN, ids.get(2)));
    assertEquals(Result.LOCK_FAILURE, node.set(MAIN, null));
    assertEquals(Optional.of(ids.get(1).name()), there(MAIN));
    assertEquals(Optional.of(ids.get(0)), node.value(MAIN));
    // If one update of a batch is refused, the others are made, or none of them if the batch is atomic.
    assertTrue(other.compareAndPut(PROJECT, "refs/heads/b", new Expected.Nothing(), ids.get(1).name(), false));
    List<String> three = List.of("refs/heads/a", "refs/heads/b", "refs/heads/c");
    List<ReceiveCommand> whole = node.create(true, three, ids.get(0));
    assertTrue(whole.get(0).getMessage().contains("etcd has " + ids.get(1).name()), whole.get(0).getMessage());
    assertTrue(whole.get(0).getMessage().contains("node " + other.nodeName() + " ("), whole.get(0).getMessage());
    assertEquals(Optional.empty(), node.value("refs/heads/a"));
    List<ReceiveCommand> each = node.create(false, three, ids.get(0));
    assertEquals(
        List.of(ReceiveCommand.Result.OK, ReceiveCommand.Result.LOCK_FAILURE, ReceiveCommand.Result.OK),
        each.stream().map(ReceiveCommand::getResult).toList());
    // etcd lets a node bring its disk up to etcd's value.
    assertEquals(Result.FORCED, node.set(MAIN, ids.get(1)));
    assertEquals(Optional.of(ids.get(1)), node.value(MAIN));
    assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRenameOfARefThatAnotherNodeMovedIsALockFailure(boolean isReftable) throws Exception {
    open(isReftable);
    node.set(MAIN, ids.get(0));
    assertTrue(put(MAIN, ids.get(0), ids.get(1)));
    RefRename rename = node.refs.newRename(MAIN, "refs/heads/new");
    rename.disableRefLog();
    assertEquals(Result.LOCK_FAILURE, rename.rename());
    assertEquals(Optional.of(ids.get(0)), node.value(MAIN));
    assertEquals(Optional.empty(), node.value("refs/heads/new"));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void threadsAskAtTheSameTimeAndEachIsMadeByItsOwnAnswer(boolean isReftable) throws Exception {
    open(isReftable);
    node.set(MAIN, ids.get(0));
    // More threads than a node has slots for requests.
    List<String> names = IntStream.range(0, 12).mapToObj(i -> "refs/heads/thread" + i).toList();
    String moved = names.get(3);
    assertTrue(other.compareAndPut(PROJECT, moved, new Expected.Nothing(), ids.get(3).name(), false));
    proxy.delay(20);
    List<Throwable> failed = Collections.synchronizedList(new ArrayList<>());
    List<Thread> threads = new ArrayList<>();
    for (String name : names) {
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      for (ObjectId id : ids.subList(0, 3)) {
                        assertEquals(!name.equals(moved), SUCCESS.contains(node.set(name, id)), name);
                      }
                    } catch (Throwable e) {
                      failed.add(e);
                    }
                  }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(List.of(), failed);
    proxy.delay(0);
    for (String name : names) {
      Optional<ObjectId> last = Optional.of(ids.get(2)).filter(id -> !name.equals(moved));
      assertEquals(last, node.value(name), name);
      assertEquals(Optional.of(ids.get(name.equals(moved) ? 3 : 2).name()), there(name), name);
    }
    assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
    assertTrue(!isReftable || node.refs.view().stats().largestGroup() > 1, "in reftables they are made together");
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void withoutEtcdUpdatesAreRefusedAndReadsGoOn(boolean isReftable) throws Exception {
    openHasty(isReftable);
    etcd.signal("STOP");
    try {
      IOException away = assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(1)));
      assertTrue(away.getMessage().contains(proxy.url()), away.getMessage());
      assertEquals(Optional.of(ids.get(0)), node.value(MAIN));
      assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(2)), "it is not decided yet");
      ReceiveCommand made = node.create(true, List.of("refs/heads/a"), ids.get(0)).get(0);
      assertEquals(ReceiveCommand.Result.REJECTED_OTHER_REASON, made.getResult());
      assertTrue(made.getMessage().contains(proxy.url()), made.getMessage());
    } finally {
      etcd.signal("CONT");
    }
    await(() -> node.intents() == 0);
    ObjectId here = node.value(MAIN).orElseThrow();
    assertEquals(Optional.of(here.name()), there(MAIN));
    surely(ids.get(3));
    assertEquals(Optional.of(ids.get(3).name()), there(MAIN));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anAgreedUpdateWhoseAnswerGotLostIsFinished(boolean isReftable) throws Exception {
    openHasty(isReftable);
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    NotAgreedException lost = assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(1)));
    assertTrue(lost.getMessage().contains("not known"), lost.getMessage());
    assertEquals(Optional.of(ids.get(1).name()), there(MAIN));
    assertEquals(Optional.of(ids.get(0)), node.value(MAIN), "the old value, while nobody knows");
    assertEquals(1, node.intents());
    assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(2)));
    assertThrows(NotAgreedException.class, () -> node.set(MAIN, null));
    assertEquals(1, node.counts().unknown());
    assertEquals(1, node.counts().unresolved());
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> node.intents() == 0 && node.counts().unresolved() == 0);
    assertEquals(Optional.of(ids.get(1)), node.value(MAIN));
    surely(ids.get(2));
  }

  /** A rename whose outcome is not known changes HEAD before, and back. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void headFollowsARenameWhoseAnswerGotLost(boolean isReftable) throws Exception {
    openHasty(isReftable);
    node.refs.newUpdate("HEAD", true).link(MAIN);
    RefRename rename = node.refs.newRename(MAIN, "refs/heads/new");
    rename.disableRefLog();
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(NotAgreedException.class, rename::rename);
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> node.intents() == 0);
    assertEquals(Optional.of(ids.get(0)), node.value("refs/heads/new"));
    assertEquals("refs/heads/new", node.refs.exactRef("HEAD").getTarget().getName());
  }

  /** Previously, HEAD followed each batch that looks like a rename on disk. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void headFollowsNoOtherBatchThatDeletesABranchAndCreatesOneOfThisValue(boolean isReftable) throws Exception {
    openHasty(isReftable);
    node.refs.newUpdate("HEAD", true).link(MAIN);
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    node.change(
        true,
        List.of(
            new ReceiveCommand(ids.get(0), ObjectId.zeroId(), MAIN),
            new ReceiveCommand(ObjectId.zeroId(), ids.get(0), "refs/heads/new")));
    assertEquals(1, node.intents());
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> node.intents() == 0);
    assertEquals(Optional.of(ids.get(0)), node.value("refs/heads/new"));
    assertEquals(MAIN, node.refs.exactRef("HEAD").getTarget().getName());
  }

  @Test
  void anUpdateThatThisDiskCannotHaveIsCountedUntilItCan() throws Exception {
    GlobalRefs refs = Nodes.openHastyNative(proxy.url(), prefix);
    node = new NativeNode(disk.folder(), refs);
    surely(ids.get(0));
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(NotAgreedException.class, () -> node.set("refs/heads/a/b", ids.get(1)));
    disk.set("refs/heads/a", ids.get(2)); // as git would, which does not ask etcd
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> refs.slots().unresolvedCount() == 0);
    await(() -> node.counts().unresolved() == 1);
    assertEquals(1, node.intents());
    disk.set("refs/heads/a", null);
    await(() -> node.intents() == 0 && node.counts().unresolved() == 0);
    assertEquals(Optional.of(ids.get(1)), node.value("refs/heads/a/b"));
  }

  /** Previously, the second attempt finished the first one, failed, and let HEAD lead to the name that was gone. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void headFollowsARenameThatIsTriedAgainAfterItsAnswerGotLost(boolean isReftable) throws Exception {
    openHasty(isReftable);
    node.refs.newUpdate("HEAD", true).link(MAIN);
    RefRename rename = node.refs.newRename(MAIN, "refs/heads/new");
    rename.disableRefLog();
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(NotAgreedException.class, rename::rename);
    // Another process, which leaves the first one's rename alone until it meets it.
    node.close();
    node = new NativeNode(disk.folder(), Nodes.open(etcd.url(), prefix));
    RefRename again = node.refs.newRename(MAIN, "refs/heads/new");
    again.disableRefLog();
    again.rename();
    assertEquals(0, node.intents());
    assertEquals(Optional.of(ids.get(0)), node.value("refs/heads/new"));
    assertEquals("refs/heads/new", node.refs.exactRef("HEAD").getTarget().getName());
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anUpdateWhoseAnswerGotLostIsFinishedThoughTheRefsWereReopened(boolean isReftable) throws Exception {
    openHasty(isReftable);
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(1)));
    node.reopen();
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> node.intents() == 0);
    assertEquals(Optional.of(ids.get(1)), node.value(MAIN));
  }

  /** Malformed settings of the module global-refdb must not leave the threads and the client of an etcd behind. */
  @Test
  void aModeThatDoesNotStartLeavesNoThread() throws Exception {
    Path site = Files.createDirectories(disk.folder().resolve("site"));
    Files.createDirectories(site.resolve("etc"));
    Files.writeString(site.resolve("etc/global-refdb.config"), "[rubbish");
    Config config = new Config();
    config.setString("refdb", "global", "etcd", etcd.url());
    long before = leaseThreads();
    assertThrows(IOException.class, () -> new NativeMode(config, new SitePaths(site), true));
    // Threads of earlier tests may end meanwhile.
    assertTrue(leaseThreads() <= before);
  }

  private static long leaseThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("refdb-global-lease"))
        .count();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRequestThatComesLateNeverApplies(boolean isReftable) throws Exception {
    openHasty(isReftable);
    proxy.mode(Proxy.Mode.HELD);
    assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(1)));
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> node.intents() == 0);
    proxy.deliverHeld();
    surely(ids.get(2));
    assertEquals(Optional.of(ids.get(2).name()), there(MAIN));
    assertEquals(Optional.of(ids.get(2)), node.value(MAIN));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anAgreedUpdateThatTheDiskDidNotTakeIsFinishedLater(boolean isReftable) throws Exception {
    openHasty(isReftable);
    // A process that dies after etcd agreed leaves this: the intent is there, and the disk has the old value.
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(NotAgreedException.class, () -> node.set(MAIN, ids.get(1)));
    Path intent = NativeNode.intentsIn(disk.folder()).getFirst();
    byte[] kept = Files.readAllBytes(intent);
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> node.intents() == 0);
    // An intent that comes back after it was settled does no harm, whatever happened since.
    Files.write(intent, kept);
    // The next writer of the ref meets the intent and settles it.
    surely(ids.get(2));
    Files.write(intent, kept);
    surely(ids.get(0));
    Files.write(intent, kept);
    surely(ids.get(3));
    assertEquals(Optional.of(ids.get(3).name()), there(MAIN));
    assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aDamagedIntentStopsWritersUntilSomeoneLooks(boolean isReftable) throws Exception {
    open(isReftable);
    node.set(MAIN, ids.get(0));
    Path folder = disk.folder().resolve("refdb-global");
    Path broken = folder.resolve("broken-1");
    for (String text : List.of("", "refdb global 1 sha1 x\n", "rubbish".repeat(100))) {
      Files.writeString(broken, text);
      EngineException met = assertThrows(EngineException.class, () -> node.set(MAIN, ids.get(1)));
      assertTrue(met.getMessage().contains(broken.toString()), met.getMessage());
      assertEquals(Optional.of(ids.get(0)), node.value(MAIN));
      assertEquals(Optional.of(ids.get(0).name()), there(MAIN));
    }
    Files.delete(broken);
    assertEquals(Result.FORCED, node.set(MAIN, ids.get(1)));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void asManyRefsAsEtcdTakesAreOneRequest(boolean isReftable) throws Exception {
    open(isReftable);
    node.set(MAIN, ids.get(0));
    long before = other.read(PROJECT, MAIN).value().isPresent() ? revision() : 0;
    List<String> most = IntStream.range(0, 124).mapToObj(i -> "refs/heads/many/" + i).toList();
    for (ReceiveCommand made : node.create(true, most, ids.get(1))) {
      assertEquals(ReceiveCommand.Result.OK, made.getResult(), made.getMessage());
    }
    assertEquals(before + 1, revision(), "one change of etcd");
    List<String> more = IntStream.range(0, 1250).mapToObj(i -> "refs/heads/more/" + i).toList();
    // Not atomic, ten times as many refs as one request takes.
    for (ReceiveCommand made : node.create(false, more, ids.get(1))) {
      assertEquals(ReceiveCommand.Result.OK, made.getResult(), made.getMessage());
    }
    assertEquals(Optional.of(ids.get(1).name()), there(more.getLast()));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aThousandRefsAreOneRequestWhereEtcdIsStartedForThem(boolean isReftable) throws Exception {
    NativeNode.convert(disk.folder(), isReftable);
    try (EtcdServer large = EtcdServer.start("--max-txn-ops=1004")) {
      GlobalRefs refs = new GlobalRefs(Nodes.largeBatches(large.url(), prefix, 1004), NodeName.of("large"));
      node = new NativeNode(disk.folder(), refs);
      node.set(MAIN, ids.get(0));
      long before = large.requests();
      for (ReceiveCommand made :
          node.create(
              true,
              IntStream.range(0, 1000).mapToObj(i -> "refs/heads/many/" + i).toList(),
              ids.get(1))) {
        assertEquals(ReceiveCommand.Result.OK, made.getResult(), made.getMessage());
      }
      assertEquals(1, large.requests() - before);
      assertEquals(Optional.of(ids.get(1).name()), refs.read(PROJECT, "refs/heads/many/999").value());
      List<String> more = IntStream.range(0, 1000).mapToObj(i -> "refs/heads/more/" + i).toList();
      try (GlobalRefs mover = Nodes.open(large.url(), prefix)) {
        assertTrue(mover.compareAndPut(PROJECT, more.get(7), new Expected.Nothing(), ids.get(2).name(), false));
        ReceiveCommand refused = node.create(true, more, ids.get(1)).getFirst();
        assertTrue(refused.getMessage().contains("node " + mover.nodeName()), refused.getMessage());
        assertEquals(Optional.empty(), refs.read(PROJECT, more.get(8)).value());
        assertTrue(
            mover.compareAndPut(
                PROJECT,
                more.get(7),
                new Expected.Is(ids.get(2).name()),
                ids.get(1).name(),
                false));
        before = large.requests();
        assertEquals(ReceiveCommand.Result.OK, node.create(true, more, ids.get(1)).getFirst().getResult());
        assertEquals(3, large.requests() - before, "refused, looked at, and accepted");
      }
    }
  }

  @Test
  void anEtcdThatTakesFewerRefsThanTheSettingSaysWhatToChange() throws Exception {
    GlobalRefs refs = new GlobalRefs(Nodes.largeBatches(etcd.url(), prefix, 1004), NodeName.of("large"));
    node = new NativeNode(disk.folder(), refs);
    ReceiveCommand refused =
        node.create(
                true,
                IntStream.range(0, 1000).mapToObj(i -> "refs/heads/many/" + i).toList(),
                ids.get(1))
            .getFirst();
    assertTrue(refused.getMessage().contains("--max-txn-ops=1004 or more"), refused.getMessage());
    assertEquals(List.of(), NativeNode.intentsIn(disk.folder()));
  }

  private long revision() throws Exception {
    other.read(PROJECT, MAIN);
    return other.etcd().revision();
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.disk.Repair;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** Repairs of a node in native mode, whose own updates etcd would refuse. */
final class NativeRepairTest {
  private static final String MAIN = "refs/heads/main";
  private static final String CHANGES = "refs/sequences/changes";
  private static final String ONLY_HERE = "refs/heads/only-here";
  private static final String ONLY_THERE = "refs/heads/only-there";

  @SuppressWarnings("try")
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void theDiskGetsEtcdsRefsAndSequencesAndLosesWhatEtcdNeverHad(boolean isReftable) throws Exception {
    String prefix = Nodes.prefix();
    try (EtcdServer etcd = EtcdServer.start();
        GlobalRefs global = Nodes.open(etcd.url(), prefix);
        DiskProject disk = DiskProject.create()) {
      ObjectId first = disk.commit(1);
      ObjectId second = disk.commit(2);
      disk.set(MAIN, first);
      disk.set(CHANGES, disk.blob("1"));
      try (DiskRefs plain = disk.refs()) {
        new Import(global).run(plain, (put, there) -> {});
      }
      disk.set(ONLY_HERE, first); // as git sets it
      ObjectId number = disk.blob("21");
      for (String ref : List.of(MAIN, ONLY_THERE, CHANGES)) {
        String value = ref.equals(CHANGES) ? number.name() : second.name();
        global.compareAndPut(DiskProject.NAME, ref, new Expected.Anything(), value, false);
      }
      NativeNode.convert(disk.folder(), isReftable);
      try (NativeNode node = new NativeNode(disk.folder(), Nodes.open(etcd.url(), prefix))) {
        List<String> said = new ArrayList<>();
        Repair.Summary summary = new Repair(global, node.disk()).run(List.of(), 100, Repair.To.ETCD, false, said::add);
        assertEquals(new Repair.Summary(4, 0), summary, said.toString());
        assertEquals(Optional.of(second), node.value(MAIN));
        assertEquals(Optional.of(second), node.value(ONLY_THERE));
        assertEquals(Optional.empty(), node.value(ONLY_HERE));
        assertEquals(Optional.of(number), node.value(CHANGES));
      }
    }
  }

  /** Previously, etcd got the disk's old value back, while the update was acknowledged. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anUpdateThatEtcdHasAndTheDiskHasNotYetIsNotTakenBack(boolean isReftable) throws Exception {
    String prefix = Nodes.prefix();
    try (EtcdServer etcd = EtcdServer.start();
        Proxy proxy = new Proxy(etcd.port());
        GlobalRefs global = Nodes.openHasty(etcd.url(), prefix);
        DiskProject disk = DiskProject.create()) {
      NativeNode.convert(disk.folder(), isReftable);
      try (NativeNode node = new NativeNode(disk.folder(), Nodes.open(proxy.url(), prefix));
          DiskRefs refs = node.disk()) {
        assertEquals(Result.NEW, node.set(MAIN, disk.commit(1)));
        ObjectId second = disk.commit(2);
        proxy.modeFrom(second.name(), Proxy.Mode.LATE_ANSWERS);
        CompletableFuture<Result> update = Nodes.later(() -> node.set(MAIN, second));
        Nodes.await(() -> proxy.lateBytes() > 0);
        List<String> said = new ArrayList<>();
        List<String> names = List.of(MAIN);
        Repair.Summary summary = new Repair(global, refs).run(names, 100, Repair.To.DISK, false, said::add);
        proxy.mode(Proxy.Mode.OPEN);
        proxy.deliverHeld();
        assertEquals(Result.FORCED, update.get());
        assertEquals(new Repair.Summary(0, 1), summary, said.toString());
        assertTrue(said.getFirst().contains("an update of it is not settled"), said.toString());
        assertEquals(Optional.of(second), node.value(MAIN));
        assertEquals(Optional.of(second.name()), global.read(DiskProject.NAME, MAIN).value());
      }
    }
  }
}

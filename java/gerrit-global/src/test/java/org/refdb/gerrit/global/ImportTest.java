package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KV;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.Decider;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** An import that is stopped goes on, takes nothing back, and leaves nothing out. */
@SuppressWarnings("try")
final class ImportTest {
  private static final int REFS = 4_550;

  private static String name(int number) {
    return "refs/heads/%05d".formatted(number);
  }

  @Test
  void whatIsThereStaysAndTheRestIsTakenUp() throws Exception {
    try (EtcdServer etcd = EtcdServer.start();
        DiskProject project =
            DiskProject.withPackedRefs(
                IntStream.range(0, REFS).mapToObj(i -> id(i + 1).name() + ' ' + name(i)));
        DiskRefs disk = project.refs();
        GlobalRefs node = Nodes.open(etcd.url(), Nodes.prefix())) {
      Import work = new Import(node);
      // One update, of the last ref, comes before the import, another one between its interruption and its second run.
      assertTrue(
          node.compareAndPut(
              DiskProject.NAME,
              name(REFS - 1),
              new Expected.Is(id(REFS).name()),
              id(98).name(),
              false));
      assertThrows(
          IllegalStateException.class,
          () ->
              work.run(
                  disk,
                  (put, there) -> {
                    throw new IllegalStateException("the process ends here, after " + put);
                  }));
      assertFalse(work.isDone(DiskProject.NAME));
      assertTrue(node.compareAndPut(DiskProject.NAME, name(7), new Expected.Is(id(8).name()), id(99).name(), false));
      AtomicLong putInAll = new AtomicLong();
      AtomicLong thereInAll = new AtomicLong();
      work.run(
          disk,
          (put, there) -> {
            putInAll.set(put);
            thereInAll.set(there);
          });
      assertEquals(REFS, putInAll.get() + thereInAll.get());
      assertTrue(thereInAll.get() > 100, "it began from nothing: " + putInAll);
      assertTrue(work.isDone(DiskProject.NAME));
      assertEquals(Optional.of(id(98).name()), node.read(DiskProject.NAME, name(REFS - 1)).value());
      assertEquals(Optional.of(id(99).name()), node.read(DiskProject.NAME, name(7)).value());
      assertEquals(Optional.of(id(REFS - 1).name()), node.read(DiskProject.NAME, name(REFS - 2)).value());
      assertFalse(
          node.compareAndPut(
              DiskProject.NAME,
              "refs/heads/new",
              new Expected.Is(id(1).name()),
              id(2).name(),
              false));
    }
  }

  /** As by two nodes that have a disk each. */
  @Test
  void anImportDuringWhichAnotherOneEndsFailsIfItHasMoreRefs() throws Exception {
    String prefix = Nodes.prefix();
    try (EtcdServer etcd = EtcdServer.start();
        DiskProject large =
            DiskProject.withPackedRefs(IntStream.range(0, REFS).mapToObj(i -> id(i + 1).name() + ' ' + name(i)));
        DiskProject small = DiskProject.create();
        DiskRefs disk = large.refs();
        DiskRefs smallDisk = small.refs();
        GlobalRefs node = Nodes.open(etcd.url(), prefix);
        GlobalRefs other = Nodes.open(etcd.url(), prefix)) {
      Import.Progress another =
          (put, there) -> {
            try {
              new Import(other).run(smallDisk, (puts, theres) -> {});
            } catch (Exception e) {
              throw new IllegalStateException(e);
            }
          };
      GlobalRefException why = assertThrows(GlobalRefException.class, () -> new Import(node).run(disk, another));
      assertTrue(why.getMessage().contains("another import of it has ended"), why.getMessage());
    }
  }

  /** Previously, the ref counted as imported although the batch was given up, so that it had no value. */
  @Test
  void aRefThatIsOnlyStagedWhenAnotherImportEndsDoesNotCount() throws Exception {
    String prefix = Nodes.prefix();
    String last = name(REFS - 1);
    try (EtcdServer etcd = EtcdServer.start();
        DiskProject large =
            DiskProject.withPackedRefs(IntStream.range(0, REFS).mapToObj(i -> id(i + 1).name() + ' ' + name(i)));
        DiskProject smaller =
            DiskProject.withPackedRefs(IntStream.range(0, REFS - 1).mapToObj(i -> id(i + 1).name() + ' ' + name(i)));
        DiskRefs disk = large.refs();
        DiskRefs smallerDisk = smaller.refs();
        GlobalRefs node = Nodes.open(etcd.url(), prefix);
        GlobalRefs other = Nodes.open(etcd.url(), prefix)) {
      Import.Progress another =
          (put, there) -> {
            try {
              if (!new Import(other).isDone(DiskProject.NAME)) {
                Generation generation = other.projects().look(DiskProject.NAME, other.deadline()).get();
                KV client = other.etcd().client().getKVClient();
                ByteSequence given = Keys.bytes(Decider.text(Decider.State.VOID, generation));
                client.put(other.keys().decider("gone/1"), given).get();
                ByteSequence stage = ByteSequence.from(new byte[] {(byte) 0xff});
                stage = stage.concat(Keys.bytes("staged - " + id(1).name() + " gone/1"));
                client.put(other.keys().value(generation, last), stage).get();
                new Import(other).run(smallerDisk, (puts, theres) -> {});
              }
            } catch (Exception e) {
              throw new IllegalStateException(e);
            }
          };
      GlobalRefException why = assertThrows(GlobalRefException.class, () -> new Import(node).run(disk, another));
      assertTrue(why.getMessage().contains("another import of it has ended"), why.getMessage());
      assertEquals(Optional.empty(), node.read(DiskProject.NAME, last).value());
    }
  }
}

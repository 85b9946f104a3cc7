package org.refdb.gerrit.global;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Gerrit's counters in native mode, with a disk for each node and nobody who fetches. */
final class SequencesTest {
  private static final String CHANGES = "refs/sequences/changes";

  private EtcdServer etcd;
  private DiskProject diskOne;
  private DiskProject diskTwo;
  private NativeNode one;
  private NativeNode two;

  @BeforeEach
  void open() throws Exception {
    etcd = EtcdServer.start();
    String prefix = Nodes.prefix();
    diskOne = DiskProject.create();
    diskTwo = DiskProject.create();
    for (DiskProject disk : List.of(diskOne, diskTwo)) {
      disk.set(CHANGES, disk.blob("1"));
    }
    one = new NativeNode(diskOne.folder(), Nodes.open(etcd.url(), prefix));
    two = new NativeNode(diskTwo.folder(), Nodes.open(etcd.url(), prefix));
  }

  @AfterEach
  void close() throws Exception {
    one.close();
    two.close();
    diskOne.close();
    diskTwo.close();
    etcd.close();
  }

  /** Sets the counter to {@code to} as Gerrit does. */
  private static RefUpdate.Result count(NativeNode node, DiskProject disk, int to) throws IOException {
    RefUpdate update = node.refs.newUpdate(CHANGES, true);
    update.setExpectedOldObjectId(node.value(CHANGES).orElseThrow());
    update.setNewObjectId(disk.blob(Integer.toString(to)));
    update.setForceUpdate(true);
    return update.update();
  }

  private static String number(NativeNode node, DiskProject disk) throws IOException {
    return new String(disk.read(node.value(CHANGES).orElseThrow()), UTF_8);
  }

  @Test
  void ofTwoNodesThatCountToOneNumberOneIsRefusedAndThenGoesOn() throws Exception {
    assertEquals(RefUpdate.Result.FORCED, count(one, diskOne, 21));
    assertEquals(RefUpdate.Result.LOCK_FAILURE, count(two, diskTwo, 21), "both would hand out 1 to 20");
    assertEquals("21", number(two, diskTwo));
    assertEquals(RefUpdate.Result.FORCED, count(two, diskTwo, 41));
    assertEquals(RefUpdate.Result.LOCK_FAILURE, count(one, diskOne, 41));
    assertEquals("41", number(one, diskOne));
    assertEquals(RefUpdate.Result.FORCED, count(one, diskOne, 61));
  }

  @Test
  void whatIsNoNumberIsLeftToTheFetch() throws Exception {
    assertEquals(RefUpdate.Result.FORCED, count(one, diskOne, 21));
    ObjectId commit = diskOne.commit(1);
    List<ReceiveCommand> moved = one.move(List.of(CHANGES), one.value(CHANGES).orElseThrow(), commit);
    assertEquals(ReceiveCommand.Result.OK, moved.getFirst().getResult(), moved.getFirst().getMessage());
    assertEquals(RefUpdate.Result.LOCK_FAILURE, count(two, diskTwo, 21));
    assertEquals("1", number(two, diskTwo));
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.gerritforge.gerrit.globalrefdb.GlobalRefDbSystemError;
import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.disk.RolledBackRefs;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/**
 * Updates that etcd has and Gerrit's wrapper has taken back on the disk. The test does what the wrapper does, in the
 * wrapper's order.
 */
@SuppressWarnings("try")
final class RolledBackRefsTest {
  private static final String MAIN = "refs/heads/main";
  private static final String SECOND = "refs/heads/second";
  private static final Project.NameKey NAME = Project.nameKey(DiskProject.NAME);

  private EtcdServer etcd;
  private Proxy link;
  private GlobalRefs node;
  private GlobalRefs other;
  private DiskProject disk;
  private RolledBackRefs takenBack;
  private EtcdRefDatabase database;
  private Optional<IOException> failure;

  /** Whether the next attempt to open the disk fails with an unchecked exception. */
  private boolean isFirstBroken;
  private ObjectId before;
  private ObjectId after;

  /** Returns rolled-back refs that cannot read any disk, for tests in which nobody looks at what was taken back. */
  static RolledBackRefs untold(GlobalRefs refs) {
    return new RolledBackRefs(
        refs,
        DiskProject.disks(
            () -> {
              throw new IOException("there is no disk");
            }));
  }

  @BeforeEach
  void open() throws Exception {
    etcd = EtcdServer.start();
    link = new Proxy(etcd.port());
    String prefix = Nodes.prefix();
    node = Nodes.openHastyOfLongLease(link.url(), prefix);
    other = Nodes.open(etcd.url(), prefix);
    disk = DiskProject.create();
    failure = Optional.empty();
    takenBack =
        new RolledBackRefs(
            node,
            DiskProject.disks(
                () -> {
                  if (isFirstBroken) {
                    isFirstBroken = false;
                    throw new IllegalStateException("made up");
                  }
                  if (failure.isPresent()) {
                    throw failure.get();
                  }
                  return disk.refs();
                }));
    database = new EtcdRefDatabase(node, takenBack);
    before = disk.commit(1);
    after = disk.commit(2);
    for (String ref : List.of(MAIN, SECOND)) {
      disk.set(ref, before);
      assertTrue(database.compareAndPut(NAME, ref(ref, null), before));
    }
  }

  @AfterEach
  void close() throws Exception {
    takenBack.stop();
    node.close();
    other.close();
    link.close();
    etcd.close();
    disk.close();
  }

  private static Ref ref(String name, ObjectId id) {
    return new ObjectIdRef.Unpeeled(Ref.Storage.LOOSE, name, id == null ? ObjectId.zeroId() : id);
  }

  private ObjectId inEtcd(String ref) throws GlobalRefException {
    return ObjectId.fromString(other.read(DiskProject.NAME, ref).value().orElseThrow());
  }

  /** The request arrives, and its answer does not. */
  private void putWithoutAnswer(String ref) throws Exception {
    link.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(GlobalRefDbSystemError.class, () -> database.compareAndPut(NAME, ref(ref, before), after));
    assertEquals(after, inEtcd(ref));
  }

  private void answersAgain() throws Exception {
    link.hangUp();
    link.mode(Proxy.Mode.OPEN);
    Nodes.await(() -> node.slots().unresolvedCount() == 0);
  }

  @Test
  void anUpdateWhoseAnswerWasLostIsSetBackOnceTheDiskIsAsBefore() throws Exception {
    try (AutoCloseable lock = database.lockRef(NAME, MAIN)) {
      disk.set(MAIN, after);
      putWithoutAnswer(MAIN);
      answersAgain();
      takenBack.start();
      Thread.sleep(1500);
      assertEquals(after, inEtcd(MAIN), "set back before the caller has taken it back");
      disk.set(MAIN, before);
    }
    Nodes.await(() -> inEtcd(MAIN).equals(before));
    assertTrue(database.isUpToDate(NAME, ref(MAIN, before)));
    assertTrue(database.compareAndPut(NAME, ref(MAIN, before), after), "the ref goes on");
  }

  @Test
  void aBatchOfWhichEtcdAcceptsAPartIsSetBackWhole() throws Exception {
    assertTrue(other.compareAndPut(DiskProject.NAME, SECOND, new Expected.Anything(), disk.commit(3).name(), false));
    try (AutoCloseable one = database.lockRef(NAME, MAIN);
        AutoCloseable two = database.lockRef(NAME, SECOND)) {
      disk.set(MAIN, after);
      disk.set(SECOND, after);
      assertTrue(database.compareAndPut(NAME, ref(MAIN, before), after));
      assertFalse(database.compareAndPut(NAME, ref(SECOND, before), after));
      disk.set(MAIN, before);
      disk.set(SECOND, before);
    }
    takenBack.look();
    assertEquals(before, inEtcd(MAIN));
    assertEquals(disk.commit(3), inEtcd(SECOND), "what another node has put stays");
  }

  @Test
  void anUpdateWhoseDiskCannotBeReadIsSetBackOnceItCan() throws Exception {
    try (AutoCloseable lock = database.lockRef(NAME, MAIN)) {
      putWithoutAnswer(MAIN);
      answersAgain();
    }
    failure = Optional.of(new IOException("stale file handle"));
    takenBack.look();
    assertEquals(after, inEtcd(MAIN));
    failure = Optional.empty();
    takenBack.look();
    assertEquals(before, inEtcd(MAIN));
  }

  /** Previously, the first update blocked all others for as long as its repository could not be opened. */
  @Test
  void anUpdateWhoseDiskFailsUnexpectedlyDoesNotBlockOthers() throws Exception {
    for (String ref : List.of(MAIN, SECOND)) {
      try (AutoCloseable lock = database.lockRef(NAME, ref)) {
        putWithoutAnswer(ref);
        answersAgain();
      }
    }
    isFirstBroken = true;
    takenBack.look();
    assertEquals(after, inEtcd(MAIN));
    assertEquals(before, inEtcd(SECOND));
    takenBack.look();
    assertEquals(before, inEtcd(MAIN));
  }

  /** Previously, the second close made the update of the lock's next holder one that is never rolled back. */
  @Test
  void closingALockAgainDoesNotForgetAnUpdateUnderTheNextOne() throws Exception {
    AutoCloseable first = database.lockRef(NAME, MAIN);
    first.close();
    try (AutoCloseable next = database.lockRef(NAME, MAIN)) {
      assertTrue(database.compareAndPut(NAME, ref(MAIN, before), after));
      first.close();
      takenBack.failed();
    }
    takenBack.look();
    assertEquals(before, inEtcd(MAIN));
  }

  @Test
  void anUpdateOfARepositoryThatIsGoneIsForgotten() throws Exception {
    try (AutoCloseable lock = database.lockRef(NAME, MAIN)) {
      putWithoutAnswer(MAIN);
      answersAgain();
    }
    failure = Optional.of(new RepositoryNotFoundException(DiskProject.NAME));
    takenBack.look();
    failure = Optional.empty();
    takenBack.look();
    assertEquals(after, inEtcd(MAIN));
  }

  @Test
  void aNewRefThatWasTakenBackIsDeletedInEtcd() throws Exception {
    try (AutoCloseable lock = database.lockRef(NAME, "refs/heads/new")) {
      link.mode(Proxy.Mode.NO_ANSWERS);
      assertThrows(
          GlobalRefDbSystemError.class,
          () -> database.compareAndPut(NAME, ref("refs/heads/new", null), after));
      answersAgain();
    }
    takenBack.look();
    assertEquals(ObjectId.zeroId(), inEtcd("refs/heads/new"));
  }

  @Test
  void whatTheDiskHasStays() throws Exception {
    try (AutoCloseable lock = database.lockRef(NAME, MAIN)) {
      disk.set(MAIN, after);
      putWithoutAnswer(MAIN);
      answersAgain();
    }
    takenBack.look();
    assertEquals(after, inEtcd(MAIN));
    disk.set(MAIN, before); // later, by someone else
    takenBack.look();
    assertEquals(after, inEtcd(MAIN), "it was looked at once");
  }

  @Test
  void whatWasPutSinceStaysAlsoIfItIsTheSameValue() throws Exception {
    try (AutoCloseable lock = database.lockRef(NAME, MAIN)) {
      putWithoutAnswer(MAIN);
      answersAgain();
    }
    assertTrue(other.compareAndPut(DiskProject.NAME, MAIN, new Expected.Is(after.name()), after.name(), false));
    takenBack.look();
    assertEquals(after, inEtcd(MAIN));
  }
}

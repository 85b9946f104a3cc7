package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;
import static org.refdb.gerrit.global.Nodes.none;
import static org.refdb.gerrit.global.Nodes.ref;

import com.gerritforge.gerrit.globalrefdb.GlobalRefDbLockException;
import com.gerritforge.gerrit.globalrefdb.GlobalRefDbSystemError;
import com.google.gerrit.entities.Project;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.SymbolicRef;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/**
 * What callers of Gerrit's interface rely on, with a real etcd. Covers what the tests of the global-refdb module
 * require of an implementation, and more. Values of a class that only a test has, which those tests store, are refused.
 */
@SuppressWarnings("try")
final class ContractTest {
  private static final String NAME = "refs/heads/branch";

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();
  private final Project.NameKey project = Nodes.project("a/project");
  private String prefix;
  private GlobalRefs refs;
  private EtcdRefDatabase database;

  @BeforeEach
  void open() {
    prefix = Nodes.prefix();
    refs = Nodes.open(etcd.url(), prefix);
    database = new EtcdRefDatabase(refs, RolledBackRefsTest.untold(refs));
  }

  @AfterEach
  void close() {
    refs.close();
  }

  @Test
  void theFirstPutCreatesTheRefWhateverItsNodeHad() {
    assertTrue(database.compareAndPut(project, none(NAME), id(1)));
    assertTrue(database.compareAndPut(project, ref("refs/heads/zero", 0), id(1)));
    assertTrue(
        database.compareAndPut(
            project, new ObjectIdRef.Unpeeled(Ref.Storage.NEW, "refs/heads/null", null), id(1)));
    assertTrue(database.compareAndPut(project, ref("refs/heads/old", 7), id(8)));
    assertEquals(Optional.of(id(8)), database.get(project, "refs/heads/old", ObjectId.class));
  }

  @Test
  void aRefMovesOnlyFromWhereItIs() {
    assertTrue(database.compareAndPut(project, none(NAME), id(1)));
    assertFalse(database.compareAndPut(project, ref(NAME, 2), id(3)), "ahead");
    assertFalse(database.compareAndPut(project, none(NAME), id(3)), "as if it did not exist");
    assertTrue(database.compareAndPut(project, ref(NAME, 1), id(2)));
    assertFalse(database.compareAndPut(project, ref(NAME, 1), id(3)), "outdated");
    assertEquals(Optional.of(id(2).name()), database.get(project, NAME, String.class));
  }

  @Test
  void aNodeThatCatchesUpPassesAndOneThatCountsDoesNot() {
    assertTrue(database.compareAndPut(project, none(NAME), id(2)));
    assertTrue(database.compareAndPut(project, ref(NAME, 1), id(2)), "it was 1 here, and is 2 there already");
    String counter = "refs/sequences/changes";
    assertTrue(database.compareAndPut(project, none(counter), id(2)));
    assertFalse(database.compareAndPut(project, ref(counter, 1), id(2)), "both would give out the same numbers");
    assertTrue(database.compareAndPut(project, "count", null, 2L));
    assertFalse(database.compareAndPut(project, "count", 1L, 2L), "both would have counted to 2");
  }

  @Test
  void aRefIsUpToDateIfItIsTheSameOrWasNeverSeen() throws Exception {
    assertTrue(database.isUpToDate(project, ref(NAME, 1)));
    assertTrue(database.isUpToDate(project, ref(NAME, 0)));
    database.compareAndPut(project, none(NAME), id(1));
    assertTrue(database.isUpToDate(project, ref(NAME, 1)));
    assertTrue(database.isUpToDateUnchecked(project, ref(NAME, 1)));
    assertFalse(database.isUpToDate(project, ref(NAME, 2)));
    assertFalse(database.isUpToDate(project, none(NAME)));
    assertFalse(database.isUpToDateUnchecked(project, none(NAME)));
  }

  @Test
  void aDeletedRefStaysKnown() throws Exception {
    assertFalse(database.exists(project, NAME));
    database.compareAndPut(project, none(NAME), id(1));
    assertTrue(database.compareAndPut(project, ref(NAME, 1), ObjectId.zeroId()));
    assertTrue(database.exists(project, NAME));
    assertTrue(database.isUpToDate(project, none(NAME)));
    assertFalse(database.isUpToDate(project, ref(NAME, 1)));
    assertFalse(database.compareAndPut(project, ref(NAME, 1), id(2)), "a node that has not heard of it");
    assertTrue(database.compareAndPut(project, none(NAME), id(2)));
  }

  @Test
  void inAnImportedProjectAnAbsentRefDoesNotExist() throws Exception {
    database.compareAndPut(project, none(NAME), id(1));
    Deadline deadline = Deadline.in(refs.etcd().settings().timeout(), refs.etcd().settings().timeout());
    Generation generation = refs.projects().findOrBegin(project.get(), deadline);
    refs.projects().markImported(project.get(), generation, deadline);
    String other = "refs/heads/other";
    assertFalse(database.isUpToDate(project, ref(other, 1)));
    assertTrue(database.isUpToDate(project, none(other)));
    assertFalse(database.compareAndPut(project, ref(other, 1), id(2)));
    assertTrue(database.compareAndPut(project, none(other), id(2)));
    assertTrue(database.compareAndPut(project, ref(NAME, 1), id(2)));
  }

  @Test
  void valuesOfAllClassesComeBack() {
    assertTrue(database.compareAndPut(project, "text", null, "with blanks, \u00fc and \n"));
    assertEquals(Optional.of("with blanks, \u00fc and \n"), database.get(project, "text", String.class));
    assertTrue(database.compareAndPut(project, "long", null, 1L << 40));
    assertTrue(database.compareAndPut(project, "long", 1L << 40, 2L));
    assertEquals(Optional.of(2L), database.get(project, "long", Long.class));
    assertEquals(Optional.of(2), database.get(project, "long", Integer.class));
    assertTrue(database.compareAndPut(project, "id", null, id(5)));
    assertEquals(Optional.of(id(5)), database.get(project, "id", ObjectId.class));
    database.put(project, "put", 7);
    database.put(project, "put", 8);
    assertEquals(Optional.of(8), database.get(project, "put", Integer.class));
    assertEquals(Optional.empty(), database.get(project, "absent", String.class));
    GlobalRefDbSystemError error =
        assertThrows(GlobalRefDbSystemError.class, () -> database.get(project, "text", Long.class));
    assertTrue(error.getMessage().contains("text of a/project"), error.getMessage());
    assertThrows(IllegalArgumentException.class, () -> database.put(project, "put", new StringBuilder()));
  }

  @Test
  void aLockKeepsOthersOutUntilItIsClosed() throws Exception {
    database.compareAndPut(project, ref(NAME, 1), id(2));
    try (GlobalRefs otherRefs = Nodes.open(etcd.url(), prefix)) {
      EtcdRefDatabase other = new EtcdRefDatabase(otherRefs, RolledBackRefsTest.untold(otherRefs));
      CompletableFuture<Boolean> second;
      CompletableFuture<Boolean> sameProcess;
      try (AutoCloseable lock = database.lockRef(project, NAME)) {
        second = CompletableFuture.supplyAsync(() -> lockedPut(other, 3));
        sameProcess = CompletableFuture.supplyAsync(() -> lockedPut(database, 3));
        assertTrue(database.isUpToDate(project, ref(NAME, 2)));
        Thread.sleep(200);
        assertFalse(second.isDone() || sameProcess.isDone());
        assertTrue(database.compareAndPut(project, ref(NAME, 2), id(4)));
      }
      assertFalse(second.get());
      assertFalse(sameProcess.get());
    }
  }

  private boolean lockedPut(EtcdRefDatabase on, int next) {
    try (AutoCloseable lock = on.lockRef(project, NAME)) {
      return on.compareAndPut(project, ref(NAME, 2), id(next));
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void aLockThatIsHeldTooLongIsRefusedWithTheNameOfItsHolder() throws Exception {
    try (GlobalRefs otherRefs = Nodes.open(etcd.url(), prefix);
        AutoCloseable held = otherRefs.lock(project.get(), NAME)) {
      GlobalRefDbLockException late =
          assertThrows(GlobalRefDbLockException.class, () -> database.lockRef(project, NAME));
      assertTrue(
          late.getCause().getMessage().contains("process " + ProcessHandle.current().pid()),
          late.getCause().getMessage());
    }
    database.lockRef(project, NAME).close();
  }

  @Test
  void projectsWhoseNamesBeginAlikeAreSeparate() {
    Project.NameKey below = Nodes.project("a/project/refs");
    database.compareAndPut(project, none("refs/heads/x"), id(1));
    database.compareAndPut(below, none("refs/heads/x"), id(2));
    database.compareAndPut(below, none("heads/x"), id(3));
    database.remove(project);
    assertFalse(database.exists(project, "refs/heads/x"));
    assertTrue(database.exists(below, "refs/heads/x"));
    assertTrue(database.exists(below, "heads/x"));
  }

  @Test
  void aLatePutOfARemovedProjectFails() throws Exception {
    try (GlobalRefs otherRefs = Nodes.open(etcd.url(), prefix)) {
      EtcdRefDatabase other = new EtcdRefDatabase(otherRefs, RolledBackRefsTest.untold(otherRefs));
      database.compareAndPut(project, none(NAME), id(1));
      assertTrue(other.exists(project, NAME));
      database.remove(project);
      GlobalRefDbSystemError late =
          assertThrows(GlobalRefDbSystemError.class, () -> other.compareAndPut(project, ref(NAME, 1), id(2)));
      assertTrue(late.getMessage().contains("was removed"), late.getMessage());
      assertFalse(other.exists(project, NAME));
      // The next project of this name begins with nothing.
      assertTrue(other.compareAndPut(project, none(NAME), id(3)));
      assertTrue(database.compareAndPut(project, ref(NAME, 3), id(4)));
    }
    for (int i = 0; i < 100 && !values().isEmpty(); i++) {
      database.remove(project);
      Thread.sleep(20);
    }
    assertEquals("", values(), "removed values are cleared");
  }

  @Test
  void aPutWithoutComparisonIsForTheProjectThatHasTheNameNow() throws Exception {
    try (GlobalRefs otherRefs = Nodes.open(etcd.url(), prefix)) {
      EtcdRefDatabase other = new EtcdRefDatabase(otherRefs, RolledBackRefsTest.untold(otherRefs));
      database.put(project, "version", 1);
      assertEquals(Optional.of(1), other.get(project, "version", Integer.class));
      database.remove(project);
      assertThrows(
          GlobalRefDbSystemError.class,
          () -> other.put(project, "version", 2),
          "it would bring a removed project back");
      database.put(project, "version", 3);
      assertEquals(Optional.of(3), other.get(project, "version", Integer.class));
      database.remove(project);
      database.put(project, "version", 4);
      other.put(project, "version", 5);
      assertEquals(Optional.of(5), database.get(project, "version", Integer.class));
    }
  }

  @Test
  void headIsEachNodesOwnAndNeverOutOfDate() throws Exception {
    Ref main = ref("refs/heads/main", 1);
    // Gerrit does this when a project is made, and when its HEAD is set to another branch.
    for (Ref head : java.util.List.of(none("HEAD"), new SymbolicRef("HEAD", main))) {
      assertTrue(database.compareAndPut(project, head, null));
      assertTrue(database.isUpToDate(project, head));
      assertTrue(database.isUpToDateUnchecked(project, new SymbolicRef("HEAD", ref("refs/heads/other", 2))));
    }
    assertFalse(database.exists(project, "HEAD"));
    assertFalse(database.exists(project, "refs/heads/main"));
    // An update through the symbolic ref moves the branch.
    assertTrue(database.compareAndPut(project, new SymbolicRef("HEAD", main), id(2)));
    assertFalse(database.compareAndPut(project, new SymbolicRef("HEAD", main), id(3)), "outdated");
    assertEquals(Optional.of(id(2)), database.get(project, "refs/heads/main", ObjectId.class));
  }

  private String values() throws Exception {
    return etcd.ctl("get", "--prefix", "--keys-only", prefix + "v/").strip()
        + etcd.ctl("get", "--prefix", "--keys-only", prefix + "d/").strip();
  }
}

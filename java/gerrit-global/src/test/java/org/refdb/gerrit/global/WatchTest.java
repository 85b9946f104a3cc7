package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.await;
import static org.refdb.gerrit.global.Nodes.id;

import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Disks;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.Pages;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.watch.LaggingRefs;
import org.refdb.gerrit.global.watch.RefWatch;

/** A node hears of the others' updates, also after its link was cut and etcd has compacted what it missed. */
@SuppressWarnings("try")
final class WatchTest {
  private static final String MAIN = "refs/heads/main";

  /** How many refs a node tracks in tests in which there is no room for more. */
  private static final int MOST = 100;

  /** A listener that does nothing. */
  private static class Deaf implements RefWatch.Listener {
    @Override
    public void moved(String project, String ref, String value) {}

    @Override
    public void released(String project, String ref) {}

    @Override
    public void releasedUnheard() {}

    @Override
    public void removed(String project) {}

    @Override
    public void started() {}
  }

  private final Queue<String> told = new ConcurrentLinkedQueue<>();
  private EtcdServer etcd;
  private Proxy proxy;
  private GlobalRefs node;
  private GlobalRefs other;
  private DiskProject project;
  private LaggingRefs behind;
  private RefWatch watching;

  @BeforeEach
  void open() throws Exception {
    etcd = EtcdServer.start();
    proxy = new Proxy(etcd.port());
    String prefix = Nodes.prefix();
    node = Nodes.openHasty(proxy.url(), prefix);
    other = Nodes.open(etcd.url(), prefix);
    project = DiskProject.create();
    // "old" is known before the watch starts; the tests add other projects later.
    put("old", id(1));
    behind = new LaggingRefs(node, DiskProject.disks(() -> project.refs()), told::add, LaggingRefs.MOST);
    watching = new RefWatch(node.etcd(), node.keys(), behind);
    await(watching::hasStarted);
    awaitEndOfComparisons(behind, told, DiskProject.NAME);
    told.clear();
  }

  @AfterEach
  void close() throws Exception {
    watching.close();
    behind.close();
    node.close();
    other.close();
    proxy.close();
    etcd.close();
    project.close();
  }

  private void put(String name, ObjectId id) throws GlobalRefException {
    assertTrue(other.compareAndPut(name, MAIN, new Expected.Anything(), id.name(), false));
  }

  @Test
  void whatOthersChangeIsToldAndCountsAsBehindUntilTheDiskHasIt() throws Exception {
    ObjectId next = project.commit(1);
    put(DiskProject.NAME, next);
    await(() -> behind.report().refs() == 1);
    put("old", id(2));
    await(() -> told.contains("old") && told.contains(DiskProject.NAME));
    assertTrue(behind.report().oldest().startsWith(MAIN + " of " + DiskProject.NAME), behind.report().toString());
    project.set(MAIN, next);
    await(() -> behind.report().refs() == 1);
    assertEquals(MAIN + " of old", behind.report().oldest());
    // The release of a lock is told too, because only then the disk of the lock's holder has the value.
    told.clear();
    other.lock(DiskProject.NAME, MAIN).close();
    await(() -> told.contains(DiskProject.NAME));
    await(() -> watching.lag() == 0);
  }

  /** Previously, a node knew of no ref that others had changed before its start. */
  @Test
  void whatOthersChangedBeforeTheStartCountsAsBehind() throws Exception {
    put(DiskProject.NAME, project.commit(1));
    try (LaggingRefs own = new LaggingRefs(node, DiskProject.disks(() -> project.refs()), any -> {}, MOST);
        RefWatch watch = new RefWatch(node.etcd(), node.keys(), own)) {
      await(() -> own.report().refs() == 1 && !own.report().more());
      assertEquals(MAIN + " of " + DiskProject.NAME, own.report().oldest());
      assertEquals(0, watch.restarts());
    }
  }

  @Test
  void aLinkThatWasCutIsMadeUpForAndCompactedHistoryByAComparison() throws Exception {
    ObjectId first = project.commit(1);
    put(DiskProject.NAME, first);
    await(() -> behind.report().refs() == 1);
    project.set(MAIN, first);
    await(() -> behind.report().refs() == 0);

    proxy.mode(Proxy.Mode.CUT);
    ObjectId second = project.commit(2);
    put(DiskProject.NAME, second);
    assertEquals(0, behind.report().refs());
    proxy.mode(Proxy.Mode.OPEN);
    await(() -> behind.report().refs() == 1);
    assertEquals(0, watching.restarts());
    project.set(MAIN, second);
    await(() -> behind.report().refs() == 0);
    assertNull(behind.report().oldest());

    told.clear();
    loseHistory();
    await(() -> watching.restarts() == 1);
    await(() -> behind.report().refs() == 1 && told.contains(DiskProject.NAME));
    put("new", id(2));
    await(() -> told.contains("new"));
  }

  /** Previously, a response of more than 4 MiB, which is gRPC's limit by default, was an error each time it came. */
  @Test
  void manyLargeChangesAreHeardOfAtOnce() throws Exception {
    Generation generation = other.projects().look("old", other.deadline()).orElseThrow();
    proxy.mode(Proxy.Mode.CUT);
    for (int i = 0; i < 20; i++) {
      String folder = "refs/heads/" + i + "/";
      List<Op> puts =
          IntStream.range(0, 100)
              .mapToObj(j -> other.keys().value(generation, folder + j))
              .map(key -> (Op) Op.put(key, Keys.bytes("1".repeat(3000)), PutOption.DEFAULT))
              .toList();
      other.etcd().commit(List.of(), puts, List.of(), other.deadline());
    }
    proxy.mode(Proxy.Mode.OPEN);
    put("new", id(1));
    await(() -> told.contains("new"));
    assertTrue(new Pages(other.etcd(), other.keys().values(generation), 2000).next().isPresent());
  }

  /** Changes something after the listener has looked at everything. */
  @Test
  void whatChangesWhileTheWatchStartsOverIsHeardOf() throws Exception {
    Queue<String> moved = new ConcurrentLinkedQueue<>();
    AtomicInteger starts = new AtomicInteger();
    Deaf listener =
        new Deaf() {
          @Override
          public void moved(String project, String ref, String value) {
            moved.add(value);
          }

          @Override
          public void started() {
            try {
              put("old", id(7 + starts.getAndIncrement()));
            } catch (GlobalRefException e) {
              throw new IllegalStateException(e);
            }
          }
        };
    try (RefWatch own = new RefWatch(node.etcd(), node.keys(), listener)) {
      await(() -> moved.contains(id(7).name()));
      loseHistory();
      await(() -> moved.contains(id(8).name()));
      assertEquals(1, own.restarts());
    }
  }

  /** Previously, the watch went on after the change, which the listener never heard of again. */
  @Test
  void aChangeAtWhichTheListenerRanOutOfMemoryIsMadeUpFor() throws Exception {
    AtomicBoolean hasFailed = new AtomicBoolean();
    AtomicBoolean isMadeUpFor = new AtomicBoolean();
    Deaf listener =
        new Deaf() {
          @Override
          public void moved(String project, String ref, String value) {
            if (!hasFailed.getAndSet(true)) {
              throw new OutOfMemoryError("made up");
            }
          }

          @Override
          public void started() {
            isMadeUpFor.set(hasFailed.get());
          }
        };
    try (RefWatch own = new RefWatch(node.etcd(), node.keys(), listener)) {
      await(own::hasStarted);
      put("old", id(7));
      await(isMadeUpFor::get);
      assertEquals(1, own.restarts());
    }
  }

  /** A newer value is heard of after a comparison has read the older one, and before the comparison ends. */
  @Test
  void aComparisonDoesNotBringAnOlderValueBack() throws Exception {
    ObjectId first = project.commit(1);
    ObjectId second = project.commit(2);
    put(DiskProject.NAME, first);
    Queue<String> looked = new ConcurrentLinkedQueue<>();
    AtomicReference<LaggingRefs> comparing = new AtomicReference<>();
    AtomicBoolean isOver = new AtomicBoolean();
    DiskProject.Opener compared =
        () -> project.refs(
            () -> {
              if (!isOver.getAndSet(true)) {
                put(DiskProject.NAME, second);
                comparing.get().moved(DiskProject.NAME, MAIN, second.name());
                project.set(MAIN, second);
              }
              return null;
            });
    try (LaggingRefs own = new LaggingRefs(node, DiskProject.disks(compared), looked::add, MOST)) {
      comparing.set(own);
      own.started();
      own.started(); // the second comparison starts after the first has ended
      await(() -> looked.size() == 3);
      own.check();
      assertEquals(0, own.report().refs(), own.report().toString());
    }
  }

  /** The client's thread waits while more responses are queued than the watch has room for. */
  @Test
  void aWatchThatEndsWhileItIsBehindHoldsNoThreadOfTheClient() throws Exception {
    CountDownLatch never = new CountDownLatch(1);
    Deaf slow =
        new Deaf() {
          @Override
          public void moved(String project, String ref, String value) {
            try {
              never.await();
            } catch (InterruptedException e) {
              Thread.currentThread().interrupt();
            }
          }
        };
    try (RefWatch own = new RefWatch(node.etcd(), node.keys(), slow)) {
      await(own::hasStarted);
      for (int i = 0; i < 100; i++) { // more than there is room for
        put("old", id(i));
      }
      await(WatchTest::isAnyoneWaitingForRoom);
    }
    await(() -> !isAnyoneWaitingForRoom());
  }

  private static boolean isAnyoneWaitingForRoom() {
    return Thread.getAllStackTraces().values().stream()
        .flatMap(Arrays::stream)
        .anyMatch(at -> at.getClassName().startsWith(RefWatch.class.getName()) && at.getMethodName().equals("put"));
  }

  /** Without a lock in etcd, as is usual in native mode, the watch of locks stays where it began. */
  @Test
  void compactedHistoryWithoutALockIsNoLoss() throws Exception {
    put("old", id(2));
    put("old", id(3));
    await(() -> told.size() == 2);
    compact();
    told.clear();
    proxy.mode(Proxy.Mode.CUT);
    proxy.mode(Proxy.Mode.OPEN);
    put("new", id(1));
    await(() -> told.contains("new") && told.contains(DiskProject.NAME)); // a lock may have been released
    assertEquals(0, watching.restarts());
  }

  private void compact() throws Exception {
    String json = etcd.ctl("get", "nothing", "-w", "json");
    etcd.ctl("compact", json.replaceAll(".*\"revision\":(\\d+).*", "$1").strip());
  }

  /** Puts values that the watch can't hear of, and removes their history. */
  private void loseHistory() throws Exception {
    proxy.mode(Proxy.Mode.CUT);
    put(DiskProject.NAME, project.commit(3));
    put("new", id(1));
    compact();
    proxy.mode(Proxy.Mode.OPEN);
  }

  @Test
  void moreRefsThanAreRememberedAreSaidToBeMore() {
    for (int i = 0; i <= 10 * LaggingRefs.MOST; i++) {
      behind.moved("nowhere", "refs/heads/" + i, id(1).name());
    }
    assertEquals(LaggingRefs.MOST, behind.report().refs());
    assertTrue(behind.report().more());
  }

  /** Previously, such a ref was forgotten as soon as the disk had all refs that were tracked. */
  @Test
  void aRefForWhichThereWasNoRoomIsFoundOnceThereIs() throws Exception {
    put(DiskProject.NAME, project.commit(1));
    try (LaggingRefs own = new LaggingRefs(node, DiskProject.disks(() -> project.refs()), any -> {}, MOST)) {
      synchronized (own) { // so that none of these is looked at before all of them are there
        for (int i = 0; i < MOST; i++) {
          own.moved(DiskProject.NAME, "refs/heads/" + i, ObjectId.zeroId().name()); // as on the disk
        }
        own.moved(DiskProject.NAME, MAIN, project.commit(1).name());
        assertTrue(own.report().more());
      }
      await(() -> own.report().refs() == 1 && !own.report().more());
      assertEquals(MAIN + " of " + DiskProject.NAME, own.report().oldest());
    }
  }

  /** The comparison does not report such a ref either. */
  @Test
  void aRefForWhichThereWasNoRoomDuringAComparisonIsFoundOnceThereIs() throws Exception {
    String value = project.commit(1).name();
    put(DiskProject.NAME, project.commit(1));
    AtomicReference<LaggingRefs> comparing = new AtomicReference<>();
    AtomicBoolean isOver = new AtomicBoolean();
    DiskProject.Opener compared =
        () -> project.refs(
            () -> {
              if (!isOver.getAndSet(true)) {
                comparing.get().moved(DiskProject.NAME, MAIN, value);
                comparing.get().removed("old");
              }
              return null;
            });
    try (LaggingRefs own = new LaggingRefs(node, DiskProject.disks(compared), any -> {}, MOST)) {
      comparing.set(own);
      fill(own, "old", MOST);
      own.started();
      await(() -> own.report().refs() == 1 && !own.report().more());
      assertEquals(MAIN + " of " + DiskProject.NAME, own.report().oldest());
    }
  }

  /** Tracks refs of a project that no disk has. */
  private static void fill(LaggingRefs own, String project, int refs) {
    for (int i = 0; i < refs; i++) {
      own.moved(project, "refs/heads/" + i, id(1).name());
    }
  }

  /** The comparison finds a ref before the removal, or fails, because etcd does not know the project any more. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aProjectThatIsRemovedDuringItsComparisonIsNotBehind(boolean isCompared) throws Exception {
    put(DiskProject.NAME, project.commit(1));
    AtomicReference<LaggingRefs> comparing = new AtomicReference<>();
    AtomicBoolean isRemoved = new AtomicBoolean();
    Callable<Void> remove =
        () -> {
          if (!isRemoved.getAndSet(true)) {
            other.remove(DiskProject.NAME);
            comparing.get().removed(DiskProject.NAME);
          }
          return null;
        };
    DiskProject.Opener compared =
        () -> {
          if (!isCompared) {
            call(remove);
          }
          return project.refs(remove);
        };
    Queue<String> looked = new ConcurrentLinkedQueue<>();
    try (LaggingRefs own = new LaggingRefs(node, DiskProject.disks(compared), looked::add, MOST)) {
      comparing.set(own);
      synchronized (own) { // so that no project is compared before the comparison that counts
        fill(own, "nowhere", MOST);
        own.moved(DiskProject.NAME, MAIN, project.commit(1).name()); // there is no room, so it may have more
        own.removed("nowhere");
        looked.clear();
      }
      own.started(); // tells of the project, and so does its removal
      own.releasedUnheard(); // tells of it after the comparison
      await(() -> looked.size() == 3);
      assertEquals(new LaggingRefs.Report(0, null, 0, false), own.report());
    }
  }

  private static void call(Callable<Void> what) throws IOException {
    try {
      what.call();
    } catch (Exception e) {
      throw new IOException(e);
    }
  }

  @Test
  void withoutRoomForMoreRefsNoFurtherProjectIsCompared() throws Exception {
    for (String name : List.of(DiskProject.NAME, "one", "two")) { // a project that etcd does not know is not compared
      put(name, project.commit(1));
    }
    Queue<String> opened = new ConcurrentLinkedQueue<>();
    Queue<String> looked = new ConcurrentLinkedQueue<>();
    Disks disks =
        new Disks() {
          @Override
          public List<String> all() {
            return List.of("one");
          }

          @Override
          public DiskRefs open(String name) throws IOException {
            if (!List.of("one", "two").contains(name)) {
              throw new IOException("there is no " + name);
            }
            opened.add(name);
            return project.refs();
          }
        };
    try (LaggingRefs own = new LaggingRefs(node, disks, looked::add, MOST)) {
      fill(own, "nowhere", MOST / 2);
      fill(own, "gone", MOST - MOST / 2);
      own.moved("one", MAIN, id(1).name());
      own.moved("two", MAIN, id(1).name());
      own.removed("gone");
      await(() -> own.report().refs() > MOST / 2); // the first that was compared needs the room
      looked.clear();
      own.releasedUnheard(); // tells of "one" after this look
      await(() -> looked.size() == 1);
      assertEquals(1, opened.stream().distinct().count());
      assertTrue(own.report().more());
    }
  }

  @Test
  void moreDifferencesThanAComparisonReportsAreSaidToBeMore() throws Exception {
    try (DiskProject empty = DiskProject.create();
        DiskRefs disk = empty.refs()) {
      new Import(other).run(disk, (put, there) -> {});
    }
    Queue<String> looked = new ConcurrentLinkedQueue<>();
    try (DiskProject large =
            DiskProject.withPackedRefs(
                IntStream.rangeClosed(0, MOST).mapToObj(i -> id(1).name() + " refs/heads/%05d".formatted(i)));
        LaggingRefs own = new LaggingRefs(node, DiskProject.disks(large::refs), looked::add, MOST)) {
      put(DiskProject.NAME, id(2)); // sorts after those that are on the disk alone
      own.started();
      awaitEndOfComparisons(own, looked, DiskProject.NAME);
      assertTrue(own.report().more());
    }
  }

  /** Waits until the thread that compares all projects, {@code last} as the last, has gone on to another task. */
  private static void awaitEndOfComparisons(LaggingRefs own, Queue<String> looked, String last) throws Exception {
    await(() -> looked.contains(last));
    looked.clear();
    own.releasedUnheard();
    await(() -> looked.contains(last));
  }

  /** Previously, status said that no ref is behind, and nothing looked at the project again. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aProjectThatCouldNotBeComparedAfterALostWatchMayBeBehind(boolean isError) throws Exception {
    put(DiskProject.NAME, project.commit(1));
    AtomicBoolean isBroken = new AtomicBoolean(true);
    DiskProject.Opener opener =
        () -> {
          if (!isBroken.get()) {
            return project.refs();
          }
          if (isError) {
            throw new OutOfMemoryError("made up");
          }
          throw new IOException("made up");
        };
    Disks disks =
        new Disks() {
          @Override
          public List<String> all() {
            return List.of(DiskProject.NAME, "next");
          }

          @Override
          public DiskRefs open(String name) throws IOException {
            return opener.open();
          }
        };
    Queue<String> looked = new ConcurrentLinkedQueue<>();
    try (LaggingRefs own = new LaggingRefs(node, disks, looked::add, MOST)) {
      synchronized (own) { // so that the projects are not searched again before the comparison
        own.started();
      }
      awaitEndOfComparisons(own, looked, "next");
      assertTrue(own.report().more());
      isBroken.set(false);
      own.started();
      await(() -> own.report().refs() == 1);
    }
  }

  @Test
  void aProjectThatIsRemovedIsNotBehind() throws Exception {
    put("old", id(2));
    put("new", id(1));
    await(() -> behind.report().refs() == 2);
    other.remove("old");
    await(() -> behind.report().refs() == 1);
    assertEquals(MAIN + " of new", behind.report().oldest());
  }

  @Test
  void aProjectThatIsRemovedWhileNothingIsHeardIsNotBehind() throws Exception {
    put("old", id(2));
    await(() -> behind.report().refs() == 1);
    proxy.mode(Proxy.Mode.CUT);
    other.remove("old");
    loseHistory();
    await(() -> watching.restarts() == 1);
    await(() -> behind.report().refs() == 1 && behind.report().oldest().endsWith(DiskProject.NAME));
  }

  @Test
  void withoutALeaderTheWatchTriesAgainLessAndLessOften() throws Exception {
    List<EtcdServer> members = EtcdServer.startCluster(3);
    try (Proxy link = new Proxy(members.getFirst().port());
        GlobalRefs alone = Nodes.openHasty(link.url(), Nodes.prefix());
        RefWatch own = new RefWatch(alone.etcd(), alone.keys(), behind)) {
      await(own::hasStarted);
      members.get(1).kill();
      members.get(2).kill();
      Thread.sleep(5000); // until they are missed
      long before = link.requestPackets();
      Thread.sleep(5000);
      long sent = link.requestPackets() - before;
      assertTrue(sent < 70, sent + " packets, of which each attempt needs two");
    } finally {
      for (EtcdServer member : members) {
        member.close();
      }
    }
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** No outcome is guessed if the link to etcd breaks, or delays or loses answers, or if etcd stops. */
@SuppressWarnings("try")
final class LostAnswersTest {
  private static final String PROJECT = "project";
  private static final String REF = "refs/heads/main";

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();
  private Proxy proxy;
  private GlobalRefs node;
  private GlobalRefs other;

  @BeforeEach
  void open() throws Exception {
    proxy = new Proxy(etcd.port());
    String prefix = Nodes.prefix();
    node = Nodes.openHasty(proxy.url(), prefix);
    other = Nodes.open(etcd.url(), prefix);
    assertTrue(put(node, 0, 1));
  }

  @AfterEach
  void close() {
    node.close();
    other.close();
    proxy.close();
  }

  private static boolean put(GlobalRefs on, int from, int to) throws GlobalRefException {
    Expected expected = from == 0 ? new Expected.Nothing() : new Expected.Is(id(from).name());
    return on.compareAndPut(PROJECT, REF, expected, id(to).name(), false);
  }

  private Optional<String> value() throws GlobalRefException {
    return other.read(PROJECT, REF).value();
  }

  private static CompletableFuture<Boolean> later(GlobalRefs on, int from, int to) {
    return Nodes.later(() -> put(on, from, to));
  }

  @Test
  void theMarkTellsThatAnUpdateWhoseAnswerGotLostWasDone() throws Exception {
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    CompletableFuture<Boolean> update = later(node, 1, 2);
    awaitValue(2);
    assertFalse(update.isDone());
    // Another node replaces the value, so the ref no longer tells whether the first update was made.
    assertTrue(put(other, 2, 3));
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    assertTrue(update.get());
    assertEquals(Optional.of(id(3).name()), value());
    assertTrue(put(node, 3, 4));
  }

  private void awaitValue(int number) throws Exception {
    for (int i = 0; i < 200 && !value().equals(Optional.of(id(number).name())); i++) {
      Thread.sleep(10);
    }
    assertEquals(Optional.of(id(number).name()), value());
  }

  @Test
  void aRequestThatIsDelayedPastItsFailureNeverApplies() throws Exception {
    proxy.mode(Proxy.Mode.HELD);
    CompletableFuture<Boolean> update = later(node, 1, 2);
    while (proxy.heldBytes() == 0) {
      Thread.sleep(5);
    }
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    // The mark of the update is closed, and the update is requested again.
    assertTrue(update.get());
    assertTrue(put(node, 2, 1), "back: an old copy would find its value again");
    proxy.deliverHeld();
    Thread.sleep(300);
    assertEquals(Optional.of(id(1).name()), value());
    assertTrue(put(node, 1, 5));
  }

  @Test
  void withoutEtcdUpdatesAreRefusedWithAClearErrorAndItIsKnownLaterWhatBecameOfThem() throws Exception {
    etcd.signal("STOP");
    try {
      CompletableFuture<?> read = refused(() -> node.read(PROJECT, REF));
      CompletableFuture<?> lock = refused(() -> node.lock(PROJECT, REF));
      GlobalRefException refused = assertThrows(GlobalRefException.class, () -> put(node, 1, 2));
      assertTrue(
          refused.getMessage().contains("did not answer")
              || refused.getMessage().contains("cannot be asked"),
          refused.getMessage());
      assertTrue(refused.getMessage().contains("not known"), refused.getMessage());
      read.get();
      lock.get();
      for (int i = 0; i < 30; i++) {
        assertTrue(node.slots().unresolvedCount() > 0, "counted also while etcd is asked once more");
        Thread.sleep(50);
      }
    } finally {
      etcd.signal("CONT");
    }
    for (int i = 0; i < 600 && node.slots().unresolvedCount() > 0; i++) {
      Thread.sleep(50);
    }
    assertEquals(0, node.slots().unresolvedCount());
    Optional<String> now = value();
    assertTrue(now.equals(Optional.of(id(1).name())) || now.equals(Optional.of(id(2).name())), now.toString());
    Thread.sleep(300);
    assertEquals(now, value(), "nothing comes after that");
  }

  private static CompletableFuture<?> refused(Executable action) {
    return CompletableFuture.runAsync(() -> assertThrows(GlobalRefException.class, action));
  }

  @Test
  void whatWasAcknowledgedOutlivesAKillOfEtcd() throws Exception {
    assertTrue(put(node, 1, 2));
    etcd.kill();
    assertThrows(GlobalRefException.class, () -> put(node, 2, 3));
    etcd.run();
    Optional<String> now = value();
    assertTrue(now.equals(Optional.of(id(2).name())) || now.equals(Optional.of(id(3).name())), now.toString());
    other.compareAndPut(PROJECT, REF, new Expected.Is(now.get()), id(9).name(), false);
    for (int i = 0; ; i++) {
      try {
        assertTrue(put(node, 9, 10));
        return;
      } catch (GlobalRefException e) {
        assertTrue(i < 20, e.getMessage());
      }
    }
  }

  @Test
  void aNodeWhoseLeaseRanOutChangesNothingUnderTheLockOfAnother() throws Exception {
    AutoCloseable lock = node.lock(PROJECT, REF);
    proxy.mode(Proxy.Mode.CUT);
    try (AutoCloseable second = lockPatiently(other)) {
      proxy.mode(Proxy.Mode.OPEN);
      GlobalRefException fenced = assertThrows(GlobalRefException.class, () -> putPatiently(1, 2));
      assertTrue(fenced.getMessage().contains("lock of refs/heads/main in project is lost"), fenced.getMessage());
      assertEquals(Optional.of(id(1).name()), value());
      assertTrue(put(other, 1, 3));
    }
    lock.close();
    node.lock(PROJECT, REF).close();
    assertTrue(put(node, 3, 4));
  }

  @Test
  void aLockWhoseAnswerWasLostDoesNotStayWhileItsNodeLives() throws Exception {
    proxy.mode(Proxy.Mode.NO_ANSWERS);
    assertThrows(GlobalRefException.class, () -> node.lock(PROJECT, REF));
    proxy.hangUp();
    proxy.mode(Proxy.Mode.OPEN);
    Nodes.await(() -> node.slots().unresolvedCount() == 0);
    lockPatiently(other).close();
  }

  private boolean putPatiently(int from, int to) throws GlobalRefException {
    for (int i = 0; ; i++) {
      try {
        return put(node, from, to);
      } catch (GlobalRefException e) {
        if (i == 10 || e.getMessage().contains("is lost")) {
          throw e;
        }
      }
    }
  }

  private static AutoCloseable lockPatiently(GlobalRefs on) throws GlobalRefException {
    for (int i = 0; ; i++) {
      try {
        return on.lock(PROJECT, REF);
      } catch (GlobalRefException e) {
        if (i == 5) {
          throw e;
        }
      }
    }
  }

  @Test
  void aSecondProcessOfTheSameNodeTakesItsPlaceAndTheFirstSaysSo() throws Exception {
    NodeName name = NodeName.of("twice");
    String prefix = Nodes.prefix();
    try (GlobalRefs first = new GlobalRefs(Nodes.settings(etcd.url(), prefix), name)) {
      assertTrue(put(first, 0, 1));
      try (GlobalRefs second = new GlobalRefs(Nodes.settings(etcd.url(), prefix), NodeName.of("twice"))) {
        assertTrue(put(second, 1, 2));
        GlobalRefException replaced = assertThrows(GlobalRefException.class, () -> put(first, 2, 3));
        assertTrue(replaced.getMessage().contains("taken the place of this node"), replaced.getMessage());
        assertTrue(put(second, 2, 4));
      }
    }
  }

  @Test
  void aProcessWithFewerSlotsAlsoStopsTheRequestsOfTheSlotsThatItLacks() throws Exception {
    String prefix = Nodes.prefix();
    try (Proxy slow = new Proxy(etcd.port());
        GlobalRefs before = new GlobalRefs(Nodes.settings(slow.url(), prefix), NodeName.of("fewer"))) {
      Expected isNew = new Expected.Nothing();
      assertTrue(before.compareAndPut(PROJECT, "refs/heads/0", isNew, id(1).name(), false));
      slow.mode(Proxy.Mode.HELD);
      List<CompletableFuture<Void>> updates = new ArrayList<>();
      for (int i = 1; i <= 3; i++) {
        String ref = "refs/heads/" + i;
        int held = slow.heldBytes();
        updates.add(CompletableFuture.runAsync(() -> failing(before, ref)));
        while (slow.heldBytes() == held) {
          Thread.sleep(5);
        }
      }
      try (GlobalRefs after = new GlobalRefs(Nodes.oneSlot(etcd.url(), prefix), NodeName.of("fewer"))) {
        assertTrue(after.compareAndPut(PROJECT, "refs/heads/0", new Expected.Is(id(1).name()), id(2).name(), false));
        slow.deliverHeld();
        slow.mode(Proxy.Mode.OPEN);
        CompletableFuture.allOf(updates.toArray(CompletableFuture[]::new)).join();
        for (int i = 1; i <= 3; i++) {
          assertEquals(Optional.empty(), after.read(PROJECT, "refs/heads/" + i).value());
        }
      }
    }
  }

  private static void failing(GlobalRefs on, String ref) {
    assertThrows(
        GlobalRefException.class, () -> on.compareAndPut(PROJECT, ref, new Expected.Nothing(), id(1).name(), false));
  }

  /** Previously, nobody tried again to release the lock if its release failed otherwise than etcd's client fails. */
  @Test
  void aLockIsReleasedAlthoughItsReleaseFailedUnexpectedly() throws Exception {
    AutoCloseable lock = node.lock(PROJECT, REF);
    Field etcdOfLocks = node.locks().getClass().getDeclaredField("etcd");
    etcdOfLocks.setAccessible(true);
    Object client = etcdOfLocks.get(node.locks());
    etcdOfLocks.set(node.locks(), null);
    assertThrows(NullPointerException.class, lock::close);
    etcdOfLocks.set(node.locks(), client);
    lockPatiently(other).close();
  }
}

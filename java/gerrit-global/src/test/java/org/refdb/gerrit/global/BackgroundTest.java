package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** A node clears removed projects in the background, and keeps its lease alive meanwhile. */
final class BackgroundTest {
  private static final String REF = "refs/heads/main";

  /** Removes projects, and leaves it to others to clear their values. */
  private static void leaveRemoved(GlobalRefs node, int count) throws GlobalRefException {
    for (int i = 0; i < count; i++) {
      node.compareAndPut("removed" + i, REF, new Expected.Nothing(), Nodes.id(1).name(), false);
      assertTrue(node.projects().remove("removed" + i, node.deadline()));
    }
  }

  private static String removed(EtcdServer etcd, String prefix) throws Exception {
    return etcd.ctl("get", "--prefix", "--keys-only", prefix + "d/").strip();
  }

  @Test
  void eachStepOfClearingHasADeadlineOfItsOwn() throws Exception {
    String prefix = Nodes.prefix();
    try (EtcdServer etcd = EtcdServer.start();
        GlobalRefs node = Nodes.open(etcd.url(), prefix)) {
      leaveRemoved(node, 3);
      AtomicInteger deadlines = new AtomicInteger();
      long before = etcd.requests();
      node.projects()
          .clearRemoved(
              () -> {
                deadlines.incrementAndGet();
                return node.deadline();
              });
      assertEquals(etcd.requests() - before, deadlines.get());
      assertEquals("", removed(etcd, prefix));
    }
  }

  @Test
  void aLeaseLivesOnWhileMuchIsCleared() throws Exception {
    String prefix = Nodes.prefix();
    try (EtcdServer etcd = EtcdServer.start();
        Proxy link = new Proxy(etcd.port())) {
      try (GlobalRefs before = Nodes.open(etcd.url(), prefix)) {
        leaveRemoved(before, 60);
      }
      link.delay(25);
      try (GlobalRefs node = Nodes.openHasty(link.url(), prefix)) {
        AutoCloseable lock = node.lock("project", REF);
        // Three times the lease.
        Thread.sleep(6000);
        assertFalse(removed(etcd, prefix).isEmpty(), "it is still at it");
        assertTrue(node.compareAndPut("project", REF, new Expected.Nothing(), Nodes.id(1).name(), false));
        lock.close();
      }
    }
  }
}

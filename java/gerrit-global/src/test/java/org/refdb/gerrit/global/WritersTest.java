package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** Many writers at the same time, and an etcd that is full. */
final class WritersTest {
  private static final int WRITERS = 8;
  private static final int STEPS = 25;

  @Test
  void eightWritersOnTwoNodesLoseNoStep() throws Exception {
    try (EtcdServer etcd = EtcdServer.start()) {
      String prefix = Nodes.prefix();
      try (GlobalRefs one = Nodes.open(etcd.url(), prefix);
          GlobalRefs two = Nodes.open(etcd.url(), prefix);
          ExecutorService threads = Executors.newFixedThreadPool(WRITERS)) {
        List<Future<Integer>> tries = new ArrayList<>();
        for (int i = 0; i < WRITERS; i++) {
          GlobalRefs node = i % 2 == 0 ? one : two;
          tries.add(threads.submit(() -> count(node)));
        }
        int all = 0;
        for (Future<Integer> each : tries) {
          all += each.get();
        }
        assertEquals(Optional.of(Integer.toString(WRITERS * STEPS)), one.read("project", "count").value());
        assertTrue(all > WRITERS * STEPS, "they never met: " + all + " tries");
      }
    }
  }

  /** Counts up, each step from a value that was read. */
  private static int count(GlobalRefs node) throws GlobalRefException {
    int tries = 0;
    for (int steps = 0; steps < STEPS; ) {
      Optional<String> now = node.read("project", "count").value();
      int next = now.map(Integer::parseInt).orElse(0) + 1;
      Expected expected = now.isEmpty() ? new Expected.Nothing() : new Expected.Is(now.get());
      tries++;
      if (node.compareAndPut("project", "count", expected, Integer.toString(next), false)) {
        steps++;
      }
    }
    return tries;
  }

  @Test
  void aFullEtcdSaysWhatToDoAndRecovers() throws Exception {
    try (EtcdServer etcd = EtcdServer.start("--quota-backend-bytes", Integer.toString(1 << 20))) {
      String prefix = Nodes.prefix();
      try (GlobalRefs node = Nodes.open(etcd.url(), prefix)) {
        String large = "x".repeat(20_000);
        int[] done = {0};
        GlobalRefException full =
            assertThrows(
                GlobalRefException.class,
                () -> {
                  for (; done[0] < 200; done[0]++) {
                    String next = done[0] + large;
                    Expected expected = done[0] == 0 ? new Expected.Nothing() : new Expected.Is(done[0] - 1 + large);
                    assertTrue(node.compareAndPut("project", "large", expected, next, false));
                  }
                });
        assertTrue(full.getMessage().contains("--quota-backend-bytes"), full.getMessage());
        // What was acknowledged is there, and the refused one is not.
        assertEquals(Optional.of(done[0] - 1 + large), node.read("project", "large").value());
        String json = etcd.ctl("get", prefix + "p/project", "-w", "json");
        etcd.ctl("compact", json.replaceAll(".*\"revision\":(\\d+).*", "$1").strip());
        etcd.ctl("defrag");
        etcd.ctl("alarm", "disarm");
        assertTrue(node.compareAndPut("project", "large", new Expected.Is(done[0] - 1 + large), "small", false));
        assertEquals(0, node.slots().unresolvedCount());
      }
    }
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.admin.Status;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.watch.LaggingRefs;

/** Three members of etcd, of which the leader is killed, stopped and cut off, while two nodes count. */
final class ClusterTest {
  private static final String KEY = "count";

  private final AtomicLong acknowledged = new AtomicLong();
  private final AtomicLong unknown = new AtomicLong();
  private volatile boolean isOver;

  @Test
  void noStepIsLostWhileMembersAreKilledStoppedAndCutOff() throws Exception {
    List<EtcdServer> members = EtcdServer.startCluster(3);
    List<Proxy> proxies = new ArrayList<>();
    for (EtcdServer member : members) {
      proxies.add(new Proxy(member.port()));
    }
    List<String> urls = proxies.stream().map(Proxy::url).toList();
    String prefix = Nodes.prefix();
    try (GlobalRefs one = Nodes.openHasty(urls, prefix);
        GlobalRefs two = Nodes.openHasty(urls.reversed(), prefix);
        ExecutorService threads = Executors.newFixedThreadPool(2)) {
      List<Future<?>> counting = List.of(threads.submit(() -> count(one)), threads.submit(() -> count(two)));
      try {
        steps();
        EtcdServer killed = members.get(leader(one));
        killed.kill();
        steps();
        killed.run();
        EtcdServer stopped = members.get(leader(one));
        stopped.signal("STOP");
        steps();
        stopped.signal("CONT");
        Proxy cut = proxies.get(leader(one));
        cut.mode(Proxy.Mode.CUT);
        steps();
        cut.mode(Proxy.Mode.OPEN);
        // One of three is no majority, but nothing that was acknowledged may get lost.
        members.get(0).kill();
        members.get(1).kill();
        members.get(0).launch();
        members.get(1).run();
        steps();
      } finally {
        isOver = true;
      }
      for (Future<?> each : counting) {
        each.get();
      }
      while (one.slots().unresolvedCount() + two.slots().unresolvedCount() > 0) {
        Thread.sleep(20);
      }
      long now = Long.parseLong(value(one).orElseThrow());
      assertEquals(value(one), value(two));
      assertTrue(now >= acknowledged.get(), now + " steps are there, and " + acknowledged + " were acknowledged");
      assertTrue(
          now <= acknowledged.get() + unknown.get(),
          now + " steps are there, " + acknowledged + " acknowledged, " + unknown + " unknown");
    } finally {
      proxies.forEach(Proxy::close);
      for (EtcdServer member : members) {
        member.close();
      }
    }
  }

  /** Waits until some more steps are acknowledged, however long that takes. */
  private void steps() throws InterruptedException {
    long until = acknowledged.get() + 5;
    while (acknowledged.get() < until) {
      Thread.sleep(10);
    }
  }

  /** Waits until all members are up, and returns the index of the leader. */
  private static int leader(GlobalRefs node) throws InterruptedException {
    while (true) {
      List<Status.Member> members = Status.ask(node, new LaggingRefs.Report(0, null, 0, false), 0).members();
      for (int i = 0; i < members.size(); i++) {
        if (members.get(i).leads() && members.stream().allMatch(Status.Member::hasLeader)) {
          return i;
        }
      }
      Thread.sleep(20);
    }
  }

  private static Optional<String> value(GlobalRefs node) throws InterruptedException {
    while (true) {
      try {
        return node.read("project", KEY).value();
      } catch (GlobalRefException e) {
        Thread.sleep(20);
      }
    }
  }

  /** Counts up, each step from a value that was read. */
  private void count(GlobalRefs node) {
    while (!isOver) {
      try {
        Optional<String> now = node.read("project", KEY).value();
        Expected expected = now.isEmpty() ? new Expected.Nothing() : new Expected.Is(now.get());
        String next = Long.toString(now.map(Long::parseLong).orElse(0L) + 1);
        if (node.compareAndPut("project", KEY, expected, next, false)) {
          acknowledged.incrementAndGet();
        }
      } catch (GlobalRefException e) {
        if (e.getMessage().contains("not known")) {
          unknown.incrementAndGet();
        }
      }
    }
  }
}

package org.refdb.it;

import java.io.IOException;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import org.refdb.gerrit.global.EtcdServer;
import org.refdb.gerrit.global.Proxy;
import org.refdb.it.History.Outcome;

/** Causes faults of nodes and of etcd while clients work. */
final class GlobalTrouble {
  private static final long MINUTE_SECONDS = 60;

  private final Cluster etcd;
  private final List<GlobalNode> nodes;
  private final Random random;

  GlobalTrouble(Cluster etcd, List<GlobalNode> nodes, Random random) {
    this.etcd = etcd;
    this.nodes = nodes;
    this.random = random;
  }

  /** Makes trouble at random. About once a minute a node is killed, and once in all etcd gets full. */
  void run(long seconds, Callable<Void> full) throws Exception {
    long start = System.nanoTime();
    long kills = 0;
    boolean wasFull = false;
    Thread killer = null;
    for (long now = 0; now < seconds; now = (System.nanoTime() - start) / 1_000_000_000) {
      if (now >= kills * MINUTE_SECONDS + MINUTE_SECONDS / 6 && (killer == null || !killer.isAlive())) {
        GlobalNode victim = nodes.get((int) (kills++ % nodes.size()));
        killer = Thread.ofPlatform().start(() -> kill(victim));
      } else if (now >= MINUTE_SECONDS / 2 && !wasFull && killer != null && !killer.isAlive()) {
        wasFull = true;
        full.call();
      } else {
        atRandom();
        Thread.sleep(random.nextInt(500));
      }
    }
    if (killer != null) {
      killer.join();
    }
    if (!wasFull) {
      full.call();
    }
    heal();
  }

  private static void kill(GlobalNode node) {
    try {
      node.kill();
      node.jump(0); // what starts it counts seconds by that clock
      node.start();
      System.out.println(node.name() + " was killed and started again");
    } catch (IOException | RuntimeException | Error e) {
      e.printStackTrace();
      System.exit(3); // nothing that is found then says anything
    }
  }

  private void heal() throws Exception {
    for (GlobalNode node : nodes) {
      node.all(Proxy.Mode.OPEN);
      node.links().forEach(link -> link.delay(0));
      node.links().forEach(Proxy::hangUp);
      deliver(node);
      node.jump(0);
    }
  }

  private static void deliver(GlobalNode node) {
    for (Proxy link : node.links()) {
      try {
        link.deliverHeld();
      } catch (IOException e) {
        // The connection to etcd is gone, and the request with it.
      }
    }
  }

  private void atRandom() throws Exception {
    GlobalNode node = nodes.get(random.nextInt(nodes.size()));
    EtcdServer member = etcd.members().get(random.nextInt(3));
    int millis = random.nextInt(1500);
    switch (random.nextInt(9)) {
      case 0 -> stopped(millis, member);
      case 1 -> {
        member.kill();
        Thread.sleep(millis);
        member.run();
      }
      case 2 -> stopped(millis, etcd.members().get(0), etcd.members().get(1));
      case 3 -> {
        node.all(Proxy.Mode.CUT);
        Thread.sleep(3L * millis); // now and then until its lease is gone
      }
      case 4 -> {
        node.all(Proxy.Mode.NO_ANSWERS);
        Thread.sleep(millis);
        node.links().forEach(Proxy::hangUp);
      }
      case 5 -> late(node, millis);
      case 6 -> node.pause(3L * millis);
      case 7 -> node.jumpIfUp(List.of(-3600L, 86_400L, 0L).get(random.nextInt(3)));
      default -> {
        int delay = random.nextInt(30);
        node.links().forEach(link -> link.delay(delay));
        Thread.sleep(millis);
        node.links().forEach(link -> link.delay(0));
      }
    }
    node.all(Proxy.Mode.OPEN);
  }

  private static void stopped(long millis, EtcdServer... members) throws Exception {
    for (EtcdServer member : members) {
      member.signal("STOP");
    }
    Thread.sleep(millis);
    for (EtcdServer member : members) {
      member.signal("CONT");
    }
  }

  /** Requests arrive after their sender has asked what became of them. */
  private void late(GlobalNode node, long millis) throws InterruptedException {
    node.all(Proxy.Mode.HELD);
    Thread.sleep(millis);
    node.links().forEach(Proxy::hangUp);
    node.all(Proxy.Mode.OPEN);
    Thread.sleep(random.nextInt(1500));
    deliver(node);
  }

  /** While etcd is full, each node says so and changes nothing. With a larger quota, both nodes go on. */
  static void full(Cluster etcd, List<GlobalNode> nodes, GlobalClients clients, int client) throws Exception {
    String ref = "refs/heads/full";
    String before = clients.read(client, ref);
    etcd.fill();
    for (GlobalNode node : nodes) {
      Pusher.Pushed pushed = clients.push(node, client, ref, before);
      if (pushed.outcomes().getFirst() == Outcome.DONE || !pushed.said().contains("database space exceeded")) {
        throw new AssertionError("etcd is full, and " + node.name() + " says: " + pushed);
      }
      clients.readOnDisk(node, client, ref);
    }
    etcd.raiseQuota();
    for (GlobalNode node : nodes) {
      TwoGerrits.await(
          "an update of " + node.name() + " after the quota was raised",
          () -> clients.push(node, client, ref + "-" + node.name(), clients.read(client, ref + "-" + node.name())).outcomes().getFirst()
              == Outcome.DONE);
    }
    System.out.println("etcd was full, and its quota was raised");
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.Decider;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.Stage;

/**
 * Two nodes with a disk each set the same refs in staged batches. Their links to etcd fail at random. Each batch sets
 * all refs to an id of its own, or to the one that etcd has and its disk does not, so all refs have the same value in
 * etcd at any moment, and no id is replaced twice.
 */
final class NativeBatchStormTest {
  private static final List<String> NAMES =
      List.of("refs/heads/a", "refs/heads/b", "refs/heads/c", "refs/heads/d", "refs/heads/e");
  private static final long SECONDS = Long.getLong("refdb.storm.seconds", 6);

  private final AtomicBoolean isOver = new AtomicBoolean();
  private final AtomicInteger commits = new AtomicInteger();
  private final AtomicInteger looks = new AtomicInteger();
  private final AtomicReference<Throwable> broken = new AtomicReference<>();

  /** What each acknowledged batch replaced, and by what. */
  private final Map<ObjectId, ObjectId> replaced = new ConcurrentHashMap<>();

  @Test
  void noBatchIsSeenInPartAndNoneIsLost() throws Exception {
    long seed = Long.getLong("refdb.storm.seed", System.nanoTime());
    try (EtcdServer etcd = EtcdServer.start();
        Proxy one = new Proxy(etcd.port());
        Proxy two = new Proxy(etcd.port());
        DiskProject disk = DiskProject.create();
        DiskProject otherDisk = DiskProject.create()) {
      String prefix = Nodes.prefix();
      NativeNode.convert(otherDisk.folder(), true);
      try (NativeNode node = new NativeNode(disk.folder(), Nodes.openSmallNative(one.url(), prefix));
          NativeNode otherNode = new NativeNode(otherDisk.folder(), Nodes.openSmallNative(two.url(), prefix));
          GlobalRefs judge = Nodes.open(etcd.url(), prefix)) {
        List<DiskProject> disks = List.of(disk, otherDisk);
        List<Thread> threads =
            List.of(
                Thread.ofPlatform().start(() -> write(node, judge, disks)),
                Thread.ofPlatform().start(() -> write(otherNode, judge, disks)),
                Thread.ofPlatform().start(() -> look(judge)));
        fail(new Random(seed), List.of(one, two));
        isOver.set(true);
        for (Thread thread : threads) {
          thread.join();
        }
        assertEquals(null, broken.get(), () -> "seed " + seed + ": " + trace(broken.get()));
        for (int i = 0; i < 3000 && node.intents() + otherNode.intents() + stages(judge) > 0; i++) {
          Thread.sleep(10);
        }
        assertEquals(0, stages(judge), "seed " + seed);
        assertChain(seed, ObjectId.fromString(judge.read(NativeNode.PROJECT, NAMES.getFirst()).value().orElseThrow()));
        System.out.printf(
            "seed %d: %d of %d batches acknowledged, %d looks%n",
            seed, replaced.size(), commits.get(), looks.get());
        assertTrue(replaced.size() > 0 && looks.get() > 10, "seed " + seed);
      }
    }
  }

  /** Asserts that no acknowledged batch has replaced the last value. */
  private void assertChain(long seed, ObjectId last) {
    assertTrue(!replaced.containsKey(last), "seed " + seed + ": a replaced value is back");
  }

  private static String trace(Throwable e) {
    java.io.StringWriter text = new java.io.StringWriter();
    if (e != null) {
      e.printStackTrace(new java.io.PrintWriter(text));
    }
    return text.toString();
  }

  private void write(NativeNode node, GlobalRefs judge, List<DiskProject> disks) {
    while (!isOver.get() && broken.get() == null) {
      try {
        ObjectId here = node.value(NAMES.getFirst()).orElse(ObjectId.zeroId());
        ObjectId there =
            judge
                .read(NativeNode.PROJECT, NAMES.getFirst())
                .value()
                .map(ObjectId::fromString)
                .orElse(here);
        if (!here.equals(there)) {
          node.move(NAMES, here, there);
          continue;
        }
        int number = commits.incrementAndGet();
        ObjectId next = null;
        for (DiskProject disk : disks) {
          next = disk.commit(number);
        }
        if (node.move(NAMES, here, next).getFirst().getResult() == ReceiveCommand.Result.OK) {
          ObjectId twice = replaced.put(here, next);
          if (twice != null) {
            throw new IllegalStateException(here + " was replaced by " + twice.name() + " and by " + next.name());
          }
        }
      } catch (Exception e) {
        broken.compareAndSet(null, e);
      }
    }
  }

  /** Reads all refs and the deciding keys at one moment, and asserts that all refs have the same value or none. */
  private void look(GlobalRefs judge) {
    GetOption all = GetOption.builder().isPrefix(true).build();
    while (!isOver.get() && broken.get() == null) {
      try {
        Optional<Generation> generation = judge.projects().look(NativeNode.PROJECT, judge.deadline());
        if (generation.isEmpty()) {
          continue;
        }
        List<Op> reads =
            List.of(
                Op.get(judge.keys().values(generation.get()), all),
                Op.get(judge.keys().allDeciders(), all));
        List<GetResponse> both =
            judge
                .etcd()
                .commitAgain(List.of(), reads, List.of(), judge.deadline())
                .getGetResponses();
        Map<String, Decider.State> states = new HashMap<>();
        for (KeyValue decider : both.get(1).getKvs()) {
          states.put(Keys.rest(decider.getKey(), judge.keys().allDeciders()), Decider.Entry.of(decider).state());
        }
        List<Optional<String>> values = new ArrayList<>();
        for (KeyValue entry : both.get(0).getKvs()) {
          Optional<Stage> stage = Stage.of(entry);
          values.add(
              stage.isEmpty()
                  ? Optional.of(Etcd.text(entry))
                  : value(stage.get(), states.get(stage.get().decider().text())));
        }
        long different = values.stream().distinct().filter(Optional::isPresent).count();
        long present = values.stream().filter(Optional::isPresent).count();
        if (different > 1 || present != 0 && present != NAMES.size()) {
          throw new IllegalStateException(
              both.get(0).getKvs().stream().map(Etcd::text).collect(Collectors.joining("\n")));
        }
        looks.incrementAndGet();
      } catch (Exception e) {
        broken.compareAndSet(null, e);
      }
    }
  }

  private static Optional<String> value(Stage stage, Decider.State state) {
    if (state == null) {
      throw new IllegalStateException("nothing decides " + stage);
    }
    return state == Decider.State.DONE ? Optional.of(stage.next()) : stage.old();
  }

  private static long stages(GlobalRefs judge) throws GlobalRefException {
    GetOption count = GetOption.builder().isPrefix(true).withCountOnly(true).build();
    return judge.etcd().read(judge.keys().allDeciders(), count, judge.deadline()).getCount();
  }

  private void fail(Random random, List<Proxy> links) throws Exception {
    long end = System.nanoTime() + SECONDS * 1_000_000_000L;
    while (System.nanoTime() < end) {
      Proxy link = links.get(random.nextInt(links.size()));
      link.mode(Proxy.Mode.values()[random.nextInt(Proxy.Mode.values().length)]);
      Thread.sleep(50 + random.nextInt(500));
      if (random.nextBoolean()) {
        link.hangUp();
      }
      link.mode(Proxy.Mode.OPEN);
      if (random.nextBoolean()) {
        try {
          link.deliverHeld();
        } catch (java.io.IOException e) {
          // The connection to etcd is gone, and the request with it.
        }
      }
      Thread.sleep(random.nextInt(600));
    }
    for (Proxy link : links) {
      link.hangUp();
      link.mode(Proxy.Mode.OPEN);
    }
  }
}

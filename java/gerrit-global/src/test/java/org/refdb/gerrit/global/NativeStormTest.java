package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.engine.EngineException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.Values;
import org.refdb.jgit.NotAgreedException;

/**
 * Two nodes in native mode write the refs of one disk, while their links to etcd fail at random. In the end disk and
 * etcd agree.
 */
final class NativeStormTest {
  private static final int REFS = 4;
  private static final int WRITERS = 3;
  private static final long SECONDS = Long.getLong("refdb.storm.seconds", 2);

  private final AtomicBoolean isOver = new AtomicBoolean();
  private final AtomicInteger acknowledged = new AtomicInteger();
  private final AtomicInteger undecided = new AtomicInteger();
  private final AtomicReference<Throwable> broken = new AtomicReference<>();

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void diskAndEtcdAgreeInTheEnd(boolean isReftable) throws Exception {
    long seed = Long.getLong("refdb.storm.seed", System.nanoTime());
    try (EtcdServer etcd = EtcdServer.start();
        Proxy one = new Proxy(etcd.port());
        Proxy two = new Proxy(etcd.port());
        DiskProject disk = DiskProject.create()) {
      List<ObjectId> ids = new ArrayList<>();
      for (int i = 0; i < 50; i++) {
        ids.add(disk.commit(i));
      }
      NativeNode.convert(disk.folder(), isReftable);
      String prefix = Nodes.prefix();
      try (NativeNode first = new NativeNode(disk.folder(), Nodes.openHastyNative(one.url(), prefix));
          NativeNode second = new NativeNode(disk.folder(), Nodes.openHastyNative(two.url(), prefix));
          GlobalRefs judge = Nodes.open(etcd.url(), prefix)) {
        run(seed, List.of(first, second), List.of(one, two), ids);
        assertEquals(null, broken.get(), () -> "seed " + seed + ": " + trace(broken.get()));
        for (Proxy proxy : List.of(one, two)) {
          proxy.mode(Proxy.Mode.OPEN);
          proxy.hangUp();
          deliver(proxy);
        }
        Nodes.await(() -> first.intents() == 0);
        for (int ref = 0; ref < REFS; ref++) {
          Optional<String> here = first.value(name(ref)).map(ObjectId::name);
          Optional<String> there = Values.live(judge.read(NativeNode.PROJECT, name(ref)).value());
          assertEquals(there, here, "seed " + seed + ", " + name(ref));
          assertEquals(here, second.value(name(ref)).map(ObjectId::name));
        }
        assertTrue(
            acknowledged.get() >= SECONDS,
            "seed " + seed + ": only " + acknowledged + " updates in " + SECONDS + " s");
        for (NativeNode node : List.of(first, second)) {
          for (int ref = 0; ref < REFS; ref++) {
            String name = name(ref);
            surely(() -> node.set(name, null));
            assertTrue(done(surely(() -> node.set(name, ids.getFirst()))), "both nodes write all refs again");
          }
        }
        System.out.printf(
            "seed %d: %d acknowledged, %d not decided at once%n",
            seed, acknowledged.get(), undecided.get());
      }
    }
  }

  private static String trace(Throwable e) {
    java.io.StringWriter text = new java.io.StringWriter();
    if (e != null) {
      e.printStackTrace(new java.io.PrintWriter(text));
    }
    return text.toString();
  }

  private static String name(int ref) {
    return "refs/heads/r" + ref;
  }

  /** Repeats an update until it is decided, however long etcd takes on a busy machine. */
  private static Result surely(Callable<Result> update) throws Exception {
    while (true) {
      try {
        return update.call();
      } catch (NotAgreedException e) {
        Thread.sleep(100);
      }
    }
  }

  private void run(long seed, List<NativeNode> nodes, List<Proxy> links, List<ObjectId> ids) throws Exception {
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < nodes.size() * WRITERS; i++) {
      NativeNode node = nodes.get(i % nodes.size());
      Random random = new Random(seed + i);
      threads.add(Thread.ofPlatform().start(() -> write(node, ids, random)));
    }
    Random random = new Random(seed - 1);
    long end = System.nanoTime() + SECONDS * 1_000_000_000L;
    while (System.nanoTime() < end) {
      Proxy link = links.get(random.nextInt(links.size()));
      Proxy.Mode mode = Proxy.Mode.values()[random.nextInt(Proxy.Mode.values().length)];
      link.mode(mode);
      Thread.sleep(100 + random.nextInt(500));
      if (random.nextBoolean()) {
        link.hangUp();
      }
      link.mode(Proxy.Mode.OPEN);
      if (random.nextBoolean()) {
        deliver(link);
      }
      Thread.sleep(random.nextInt(300));
    }
    isOver.set(true);
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private static void deliver(Proxy link) {
    try {
      link.deliverHeld();
    } catch (IOException e) {
      // The connection to etcd is gone, and the request with it.
    }
  }

  private void write(NativeNode node, List<ObjectId> ids, Random random) {
    while (!isOver.get()) {
      try {
        ObjectId id = ids.get(random.nextInt(ids.size()));
        boolean isDone =
            switch (random.nextInt(4)) {
              case 0 -> done(node.set(name(random.nextInt(REFS)), null));
              case 1 -> node.create(random.nextBoolean(), Arrays.asList(name(0), name(1), name(2)), id).stream()
                  .anyMatch(command -> command.getResult() == ReceiveCommand.Result.OK);
              default -> done(node.set(name(random.nextInt(REFS)), id));
            };
        if (isDone) {
          acknowledged.incrementAndGet();
        }
      } catch (NotAgreedException e) {
        undecided.incrementAndGet();
      } catch (EngineException e) {
        if (e.kind() != EngineException.Kind.LOCKED) {
          broken.compareAndSet(null, e);
        }
      } catch (IOException | RuntimeException e) {
        broken.compareAndSet(null, e);
      }
    }
  }

  private static boolean done(Result result) {
    return switch (result) {
      case NEW, FORCED, FAST_FORWARD -> true;
      default -> false;
    };
  }
}

package org.refdb.gerrit.global;

import static org.refdb.gerrit.global.Nodes.id;

import io.etcd.jetcd.KV;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** The figures of native mode: eight writers beside one on a slow link, and a large batch beside bare puts. */
final class NativeFigures {
  private static final int WRITERS = 8;
  private static final long LATENCY_MILLIS = 5;
  private static final long SECONDS = 5;
  private static final int BATCH = 1000;
  private static final int BATCHES = 40;

  /** The number of operations in a request that are not about its refs. */
  private static final int BESIDES = 4;

  /** The default of etcd's {@code --max-txn-ops}; a batch with more operations is staged. */
  private static final int ETCDS_DEFAULT = 128;

  private static final AtomicInteger RUNS = new AtomicInteger();

  private NativeFigures() {}

  static void print() throws Exception {
    for (boolean isReftable : List.of(false, true)) {
      try (EtcdServer etcd = EtcdServer.start("--max-txn-ops=1100");
          DiskProject disk = DiskProject.create()) {
        NativeNode.convert(disk.folder(), isReftable);
        writers(etcd, disk, isReftable ? "reftables" : "files");
        batches(etcd, disk, isReftable ? "reftables" : "files", BATCH + BESIDES);
        batches(etcd, disk, isReftable ? "reftables" : "files", ETCDS_DEFAULT);
      }
    }
  }

  private static void writers(EtcdServer etcd, DiskProject disk, String format) throws Exception {
    List<ObjectId> ids = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      ids.add(disk.commit(i));
    }
    try (Proxy link = new Proxy(etcd.port());
        NativeNode node = new NativeNode(disk.folder(), Nodes.open(link.url(), "writers/"))) {
      link.delay(LATENCY_MILLIS);
      printWriters(format, (ref, i) -> node.set(ref, ids.get(i % ids.size())));
    }
  }

  /** One update of a ref: the first one has the number 0. */
  private interface Update {
    void run(String ref, int number) throws Exception;
  }

  /** Prints the figures of the interface alone, which are compared with those of Curator in bench/curator. */
  static void printInterface() throws Exception {
    try (EtcdServer etcd = EtcdServer.start();
        Proxy link = new Proxy(etcd.port());
        GlobalRefs refs = Nodes.open(link.url(), "interface/")) {
      link.delay(LATENCY_MILLIS);
      printWriters("compare-and-put", (ref, i) -> put(refs, ref, i));
      printWriters("lock, compare-and-put, release", (ref, i) -> putLocked(refs, ref, i));
    }
  }

  private static void put(GlobalRefs refs, String ref, int number) throws GlobalRefException {
    Expected before = number == 0 ? new Expected.Nothing() : new Expected.Is(id(number).name());
    if (!refs.compareAndPut("project", ref, before, id(number + 1).name(), false)) {
      throw new IllegalStateException("somebody else has moved " + ref);
    }
  }

  @SuppressWarnings("try") // the lock is held and not asked
  private static void putLocked(GlobalRefs refs, String ref, int number) throws Exception {
    try (AutoCloseable lock = refs.lock("project", ref)) {
      put(refs, ref, number);
    }
  }

  private static void printWriters(String what, Update update) throws Exception {
    perSecond(update, WRITERS);
    double one = perSecond(update, 1);
    double eight = perSecond(update, WRITERS);
    System.out.printf(
        "%s: %d writers on distinct refs, %d ms each way: %.0f updates/s, one writer %.0f, %.2f times%n", what, WRITERS,
        LATENCY_MILLIS, eight, one, eight / one);
  }

  private static double perSecond(Update update, int writers) throws Exception {
    String folder = "refs/heads/run" + RUNS.incrementAndGet() + '/';
    AtomicInteger done = new AtomicInteger();
    AtomicReference<Exception> failed = new AtomicReference<>();
    long start = System.nanoTime();
    List<Thread> threads = new ArrayList<>();
    for (int writer = 0; writer < writers; writer++) {
      String ref = folder + writer;
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      for (int i = 0; System.nanoTime() - start < SECONDS * 1_000_000_000; i++) {
                        update.run(ref, i);
                        done.incrementAndGet();
                      }
                    } catch (Exception e) {
                      failed.set(e);
                    }
                  }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    if (failed.get() != null) {
      throw failed.get();
    }
    return done.get() / ((System.nanoTime() - start) / 1e9);
  }

  /** Prints how long batches take in etcd, from the first request to the last answer, and bare puts of as many keys. */
  private static void batches(EtcdServer etcd, DiskProject disk, String format, int txnOps) throws Exception {
    ObjectId id = disk.commit(0);
    String run = "batches" + txnOps;
    GlobalRefs refs = new GlobalRefs(Nodes.largeBatches(etcd.url(), run + '/', txnOps), NodeName.of(run));
    try (NativeNode node = new NativeNode(disk.folder(), refs)) {
      KV kv = refs.etcd().client().getKVClient();
      AtomicLong took = new AtomicLong();
      refs.counts().updateTook = took::set;
      long[] ours = new long[BATCHES];
      long[] bare = new long[BATCHES];
      long requests = 0;
      for (int i = 0; i < BATCHES; i++) {
        String folder = "refs/heads/%s/%02d/".formatted(run, i);
        List<String> names = IntStream.range(0, BATCH).mapToObj(at -> folder + at).toList();
        long before = etcd.requests();
        for (ReceiveCommand made : node.create(true, names, id)) {
          if (made.getResult() != ReceiveCommand.Result.OK) {
            throw new IllegalStateException(made.toString());
          }
        }
        requests = etcd.requests() - before;
        ours[i] = took.get();
        // A staged batch is cleared afterwards.
        while (kv.get(Keys.bytes(run + "/b/"), GetOption.builder().isPrefix(true).build()).get().getCount() > 0) {
          Thread.sleep(10);
        }
        long start = System.nanoTime();
        bare(kv, names, txnOps - BESIDES);
        bare[i] = System.nanoTime() - start;
      }
      double oursMillis = Figures.median(ours) / 1000;
      double bareMillis = Figures.median(bare) / 1000;
      System.out.printf(
          "%s: a batch of %d refs, %d a request, p50 in etcd: refdb %.1f ms, bare puts %.1f ms, %.2f times;"
              + " %d requests%n",
          format,
          BATCH,
          txnOps - BESIDES,
          oursMillis,
          bareMillis,
          oursMillis / bareMillis,
          requests);
    }
  }

  /** Puts a key for each name, at most {@code most} in a request, one request after the other. */
  private static void bare(KV kv, List<String> names, int most) throws Exception {
    for (int first = 0; first < names.size(); first += most) {
      Op[] puts =
          names.subList(first, Math.min(names.size(), first + most)).stream()
              .map(
                  name ->
                      Op.put(
                          Keys.bytes("batched/v/0123456789abcdef/" + name),
                          Keys.bytes(id(1).name()),
                          PutOption.DEFAULT))
              .toArray(Op[]::new);
      kv.txn().Then(puts).commit().get();
    }
  }
}

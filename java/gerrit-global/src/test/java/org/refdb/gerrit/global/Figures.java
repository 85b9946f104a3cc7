package org.refdb.gerrit.global;

import static org.refdb.gerrit.global.Nodes.id;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/**
 * The figures of bench/results/global.md, by bench/bench-global: updates and imports by refdb beside those of the bare
 * client, then the figures of {@link NativeFigures}.
 */
final class Figures {
  private static final int BATCH = 100;
  private static final long NAMES = 10_000_000;

  private Figures() {}

  /** Takes the number of updates of each kind, and of refs to import. */
  public static void main(String[] arguments) throws Exception {
    int updates = Integer.parseInt(arguments[0]);
    int refs = Integer.parseInt(arguments[1]);
    try (EtcdServer etcd = EtcdServer.start();
        GlobalRefs node = Nodes.open(etcd.url(), "figures/")) {
      updates(node, updates);
      imports(etcd, node, refs);
    }
    NativeFigures.printInterface();
    NativeFigures.print();
  }

  private static void updates(GlobalRefs node, int count) throws Exception {
    KV kv = node.etcd().client().getKVClient();
    ByteSequence key = Keys.bytes("bare");
    kv.put(key, Keys.bytes(id(0).name())).get();
    node.compareAndPut("project", "refs/heads/main", new Expected.Nothing(), id(0).name(), false);
    String before = id(0).name();
    long[] bare = new long[count];
    long[] ours = new long[count];
    for (int i = 0; i < count; i++) {
      String next = id(i + 1).name();
      long start = System.nanoTime();
      kv.txn().If(Etcd.is(key, before)).Then(Op.put(key, Keys.bytes(next), PutOption.DEFAULT)).commit().get();
      bare[i] = System.nanoTime() - start;
      start = System.nanoTime();
      node.compareAndPut("project", "refs/heads/main", new Expected.Is(before), next, false);
      ours[i] = System.nanoTime() - start;
      before = next;
    }
    double bareMicros = median(bare);
    double oursMicros = median(ours);
    System.out.printf(
        "compare-and-put, p50: refdb %.0f us, bare client %.0f us, %.2f times%n",
        oursMicros, bareMicros, oursMicros / bareMicros);
  }

  /** Returns the median of the second half of the times in microseconds, because the first half only warms up. */
  static double median(long[] nanos) {
    long[] warm = Arrays.copyOfRange(nanos, nanos.length / 2, nanos.length);
    Arrays.sort(warm);
    return warm[warm.length / 2] / 1000.0;
  }

  /** Measures an import, then bare puts of the same refs, after a quarter as many of both to warm up. */
  private static void imports(EtcdServer etcd, GlobalRefs node, int count) throws Exception {
    try (GlobalRefs other = Nodes.open(etcd.url(), "warm/")) {
      imported(other, count / 4);
    }
    bare(node, count / 4, "warm");
    long before = disk(etcd);
    Duration begun = etcd.work();
    long start = System.nanoTime();
    imported(node, count);
    double ours = count / ((System.nanoTime() - start) / 1e9);
    Duration afterOurs = etcd.work();
    long after = disk(etcd);
    Duration afterRest = etcd.work();
    start = System.nanoTime();
    bare(node, count, "bbbb");
    double bare = count / ((System.nanoTime() - start) / 1e9);
    double work = (double) afterOurs.minus(begun).toMillis() / etcd.work().minus(afterRest).toMillis();
    System.out.printf("import: refdb %.0f refs/s, bare puts %.0f refs/s, %.2f times%n", ours, bare, ours / bare);
    System.out.printf("import: etcd's processor time, %.2f times that of bare puts%n", work);
    System.out.printf("etcd's disk a ref, imported: %.0f bytes%n", (after - before) / (double) count);
  }

  private static void imported(GlobalRefs node, int count) throws Exception {
    try (DiskProject project =
            DiskProject.withPackedRefs(
                IntStream.range(0, count).mapToObj(i -> id(i + 1).name() + ' ' + name(i)));
        DiskRefs disk = project.refs()) {
      new Import(node).run(disk, (put, there) -> {});
    }
  }

  private static String name(int number) {
    return "refs/heads/%03d/%07d".formatted(number * 1000 / NAMES, number);
  }

  /**
   * Writes the values of an import under keys of the same length by puts alone, with as many of them in a request and
   * as many requests at the same time as an import has.
   */
  private static void bare(GlobalRefs node, int count, String folder) throws Exception {
    KV kv = node.etcd().client().getKVClient();
    List<CompletableFuture<?>> underWay = new ArrayList<>();
    for (int first = 0; first < count; first += BATCH) {
      Op[] puts =
          IntStream.range(first, Math.min(count, first + BATCH))
              .mapToObj(
                  i ->
                      Op.put(
                          Keys.bytes("figures/v/%16s/%s".formatted(folder, name(i))),
                          Keys.bytes(id(i + 1).name()),
                          PutOption.DEFAULT))
              .toArray(Op[]::new);
      if (underWay.size() == 8) {
        underWay.removeFirst().get();
      }
      underWay.add(kv.txn().If(new Cmp[0]).Then(puts).commit());
    }
    for (CompletableFuture<?> each : underWay) {
      each.get();
    }
  }

  /** Returns the bytes of etcd's database that are in use, without the free pages that its file keeps. */
  private static long disk(EtcdServer etcd) throws Exception {
    Thread.sleep(500);
    String json = etcd.ctl("endpoint", "status", "-w", "json");
    return Long.parseLong(json.replaceAll("(?s).*\"dbSizeInUse\":(\\d+).*", "$1"));
  }
}

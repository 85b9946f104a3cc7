package org.refdb.bench.caches;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** Runs rows and prints them; an engine's files are in the folder of its name. */
final class Table {
  private static final long SETTLE_MILLIS = 3000;

  private final Path folder;

  Table(Path folder) {
    this.folder = folder;
  }

  /** What a thread does. */
  interface Work {
    void run(long thread, Outcome outcome) throws Exception;
  }

  /** Returns the folder of an engine's files. */
  Path of(String name) {
    return folder.resolve(name);
  }

  void header() {
    System.out.println(
        "| row | engine | kop/s | get p50 | p95 | p99 | p99.9 | max ms | put p50 | p95 | p99 | p99.9 | max ms | hit"
            + " | refused | wrong | disk MB |");
    System.out.println("|" + "-|".repeat(17));
  }

  /** Has threads do their work and prints what they saw, with the disk space that the engine's files take just then. */
  void row(String row, String name, int threads, Work work) throws Exception {
    System.out.println(line(row, name, threads, work) + " |");
  }

  /** As {@link #row}, with the disk space after some quiet seconds too. */
  void settledRow(String row, String name, int threads, Work work) throws Exception {
    String line = line(row, name, threads, work);
    Thread.sleep(SETTLE_MILLIS);
    System.out.printf(Locale.ROOT, "%s, then %.0f |%n", line, diskMb(name));
  }

  /** Waits until the thread's operation {@code k} is due, if there is a rate: operations a second of all threads. */
  static void pace(long start, long k, int threads, double rate) {
    if (rate > 0) {
      LockSupport.parkNanos(start + (long) (k * threads / rate * 1e9) - System.nanoTime());
    }
  }

  private String line(String row, String name, int threads, Work work) throws Exception {
    long start = System.nanoTime();
    Outcome total = new Outcome();
    try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
      List<Callable<Outcome>> tasks = new ArrayList<>();
      for (int t = 0; t < threads; t++) {
        long thread = t;
        tasks.add(() -> {
          Outcome outcome = new Outcome();
          work.run(thread, outcome);
          return outcome;
        });
      }
      for (Future<Outcome> future : pool.invokeAll(tasks)) {
        total.merge(future.get());
      }
    }
    double rate = (total.gets.count() + total.puts.count()) / ((System.nanoTime() - start) / 1e9) / 1000;
    StringBuilder line = new StringBuilder(String.format(Locale.ROOT, "| %s | %s | %.1f |", row, name, rate));
    for (Histogram times : List.of(total.gets, total.puts)) {
      for (double share : new double[] {0.5, 0.95, 0.99, 0.999}) {
        line.append(String.format(Locale.ROOT, " %.2f |", times.quantileMicros(share)));
      }
      line.append(String.format(Locale.ROOT, " %.1f |", times.maxMillis()));
    }
    double hit = (double) total.hits / Math.max(1, total.gets.count());
    return line + String.format(Locale.ROOT, " %.4f | %d | %d | %.0f", hit, total.refused, total.wrong, diskMb(name));
  }

  private double diskMb(String name) throws IOException {
    try (Stream<Path> files = Files.walk(of(name))) {
      return files.mapToLong(file -> file.toFile().isFile() ? file.toFile().length() : 0).sum() / 1e6;
    } catch (UncheckedIOException vanished) {
      return Double.NaN;
    }
  }
}

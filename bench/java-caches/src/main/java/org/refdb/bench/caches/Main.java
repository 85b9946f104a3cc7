package org.refdb.bench.caches;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** Runs the rows of bench/kv-workload.md that do not depend on a byte limit, for each engine in turn. */
public final class Main {
  private final Path folder;
  private final long entries;
  private final double seconds;

  private Main(Path folder, long entries, double seconds) {
    this.folder = folder;
    this.entries = entries;
    this.seconds = seconds;
  }

  /** What one thread, then all threads, saw. */
  private static final class Outcome {
    final Histogram gets = new Histogram();
    final Histogram puts = new Histogram();
    long hits;
    long wrong;
    long refused;

    void merge(Outcome other) {
      gets.merge(other.gets);
      puts.merge(other.puts);
      hits += other.hits;
      wrong += other.wrong;
      refused += other.refused;
    }

    void get(Engine engine, long i) throws Exception {
      byte[] key = Workload.key(i);
      long start = System.nanoTime();
      byte[] value = engine.get(key);
      gets.add(System.nanoTime() - start);
      if (value != null) {
        hits++;
        wrong += Workload.isValue(i, value) ? 0 : 1;
      }
    }

    void put(Engine engine, long i) throws Exception {
      byte[] key = Workload.key(i);
      byte[] value = Workload.value(i);
      long start = System.nanoTime();
      boolean stored = engine.put(key, value);
      puts.add(System.nanoTime() - start);
      refused += stored ? 0 : 1;
    }
  }

  private interface Work {
    void run(long thread, Outcome outcome) throws Exception;
  }

  /**
   * Arguments: a folder, how many entries, seconds a row, rows with commas between them, engines. The rows are load, get100,
   * mix95, mix50, paced95 and restart; each runs for all engines in turn before the next. Without load the folder must have
   * been loaded before.
   *
   * @param arguments as said
   */
  public static void main(String[] arguments) throws Exception {
    Main main = new Main(Path.of(arguments[0]), Long.parseLong(arguments[1]), Double.parseDouble(arguments[2]));
    System.out.println(
        "| row | engine | kop/s | get p50 | p95 | p99 | p99.9 | max ms | put p50 | p95 | p99 | p99.9 | max ms | hit"
            + " | refused | wrong | disk MB |");
    System.out.println("|" + "-|".repeat(17));
    main.run(List.of(arguments[3].split(",")), List.of(arguments).subList(4, arguments.length));
    System.exit(0); // an engine's threads must not keep the program
  }

  private void run(List<String> rows, List<String> names) throws Exception {
    List<Engine> engines = new ArrayList<>();
    for (String name : names) {
      engines.add(Engine.open(name, folder.resolve(name), entries));
    }
    Workload.Zipf zipf = new Workload.Zipf(entries);
    int cores = Runtime.getRuntime().availableProcessors();
    boolean isWarm = false;
    for (String row : rows) {
      if (!isWarm && !row.equals("load") && !row.equals("restart")) {
        mixed("warm-up", names, engines, zipf, 1, 95, cores, 0);
        isWarm = true;
      }
      switch (row) {
        case "load" -> load(names, engines);
        case "get100" -> closedLoop(row, names, engines, zipf, 2, 100, cores);
        case "mix95" -> closedLoop(row, names, engines, zipf, 4, 95, cores);
        case "mix50" -> closedLoop(row, names, engines, zipf, 6, 50, cores);
        case "paced95" -> mixed("paced95 8 threads", names, engines, zipf, 8, 95, 8, 10_000);
        case "restart" -> {
          System.out.println();
          for (int e = 0; e < names.size(); e++) {
            restart(names.get(e), engines.get(e));
          }
          return;
        }
        default -> throw new IllegalArgumentException("no row " + row);
      }
    }
    for (Engine engine : engines) {
      engine.close();
    }
  }

  private void load(List<String> names, List<Engine> engines) throws Exception {
    for (int e = 0; e < names.size(); e++) {
      AtomicLong next = new AtomicLong();
      Engine engine = engines.get(e);
      row("load", names.get(e), 8, (thread, outcome) -> {
        for (long i = next.getAndIncrement(); i < entries; i = next.getAndIncrement()) {
          outcome.put(engine, i);
        }
      });
    }
  }

  private void closedLoop(
      String row, List<String> names, List<Engine> engines, Workload.Zipf zipf, long round, int gets, int cores)
      throws Exception {
    mixed(row + " " + cores + " threads", names, engines, zipf, round, gets, cores, 0);
    mixed(row + " " + 4 * cores + " threads", names, engines, zipf, round + 1, gets, 4 * cores, 0);
  }

  private void mixed(
      String row, List<String> names, List<Engine> engines, Workload.Zipf zipf, long round, int gets, int threads,
      double rate) throws Exception {
    for (int e = 0; e < names.size(); e++) {
      Engine engine = engines.get(e);
      long start = System.nanoTime();
      row(row, names.get(e), threads, (thread, outcome) -> {
        Workload.Draws draws = new Workload.Draws(Workload.mix(1000 * round + thread));
        for (long k = 0; System.nanoTime() - start < seconds * 1e9; k++) {
          if (rate > 0) {
            LockSupport.parkNanos(start + (long) (k * threads / rate * 1e9) - System.nanoTime());
          }
          boolean isGet = Long.remainderUnsigned(draws.draw(), 100) < gets;
          long key = zipf.key(draws);
          if (isGet) {
            outcome.get(engine, key);
          } else {
            outcome.put(engine, key);
          }
        }
      });
    }
  }

  private void row(String row, String name, int threads, Work work) throws Exception {
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
    System.out.println(
        line + String.format(Locale.ROOT, " %.4f | %d | %d | %.0f |", hit, total.refused, total.wrong, diskMb(name)));
  }

  private void restart(String name, Engine engine) throws Exception {
    long start = System.nanoTime();
    engine.close();
    long closed = System.nanoTime();
    try (Engine again = Engine.open(name, folder.resolve(name), entries)) {
      long opened = System.nanoTime();
      boolean found = again.get(Workload.key(entries / 2)) != null;
      long read = System.nanoTime();
      String cleared = "not measured (does not end in minutes)";
      if (!name.equals("h2")) {
        again.clear();
        cleared = String.format(Locale.ROOT, "%.2f ms", (System.nanoTime() - read) / 1e6);
      }
      System.out.printf(
          Locale.ROOT, "%s: close %.0f ms, open %.0f ms, first read %.1f ms (%s), clear %s%n",
          name, (closed - start) / 1e6, (opened - closed) / 1e6, (read - opened) / 1e6, found ? "found" : "MISSING",
          cleared);
    }
  }

  private double diskMb(String name) throws IOException {
    try (Stream<Path> files = Files.walk(folder.resolve(name))) {
      return files.mapToLong(file -> file.toFile().isFile() ? file.toFile().length() : 0).sum() / 1e6;
    } catch (java.io.UncheckedIOException vanished) {
      return Double.NaN;
    }
  }
}

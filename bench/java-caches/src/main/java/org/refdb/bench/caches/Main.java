package org.refdb.bench.caches;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;

/** Runs rows of bench/kv-workload.md, but not the last one of that file, each for all engines in turn. */
public final class Main {
  private static final long LIMIT_BYTES = 4L << 30;

  private final Table table;
  private final long entries;
  private final double seconds;

  private Main(Path folder, long entries, double seconds) {
    this.table = new Table(folder);
    this.entries = entries;
    this.seconds = seconds;
  }

  /**
   * Arguments: a folder, how many entries, seconds a row, rows with commas between them, engines. The rows are load,
   * get100, mix95, mix50, paced95, overwrite, pressure, pressure-paced and restart, which is the last. Each runs for
   * all engines in turn before the next. Without load the folder must have been loaded before, except for the pressure
   * rows.
   *
   * @param arguments as said
   */
  public static void main(String[] arguments) throws Exception {
    Main main = new Main(Path.of(arguments[0]), Long.parseLong(arguments[1]), Double.parseDouble(arguments[2]));
    main.table.header();
    main.run(List.of(arguments[3].split(",")), List.of(arguments).subList(4, arguments.length));
    System.exit(0); // an engine's threads must not keep the program
  }

  private void run(List<String> rows, List<String> names) throws Exception {
    List<Engine> engines = new ArrayList<>();
    for (String name : names) {
      engines.add(open(name));
    }
    Workload.Zipf zipf = new Workload.Zipf(entries);
    int cores = Runtime.getRuntime().availableProcessors();
    boolean isWarm = false;
    for (String row : rows) {
      if (!isWarm && !List.of("load", "restart").contains(row) && !row.startsWith("pressure")) {
        mixed("warm-up", names, engines, zipf, 1, 95, cores, 0);
        isWarm = true;
      }
      switch (row) {
        case "load" -> load(names, engines);
        case "get100" -> closedLoop(row, names, engines, zipf, 2, 100, cores);
        case "mix95" -> closedLoop(row, names, engines, zipf, 4, 95, cores);
        case "mix50" -> closedLoop(row, names, engines, zipf, 6, 50, cores);
        case "overwrite" -> overwrite(names, engines);
        case "pressure" -> pressure(names, 0);
        case "pressure-paced" -> pressure(names, 10_000);
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

  private Engine open(String name) throws Exception {
    return Engine.open(name, table.of(name), entries, LIMIT_BYTES);
  }

  private void overwrite(List<String> names, List<Engine> engines) throws Exception {
    for (int e = 0; e < names.size(); e++) {
      Engine engine = engines.get(e);
      long start = System.nanoTime();
      table.settledRow("overwrite 8 threads", names.get(e), 8, (thread, outcome) -> {
        Workload.Draws draws = new Workload.Draws(Workload.mix(9000 + thread));
        while (System.nanoTime() - start < seconds * 1e9) {
          outcome.put(engine, Long.remainderUnsigned(draws.draw(), entries));
        }
      });
    }
  }

  private void pressure(List<String> names, double rate) throws Exception {
    for (String name : names) {
      new Pressure(table, entries, seconds, rate).run(name);
    }
  }

  private void load(List<String> names, List<Engine> engines) throws Exception {
    for (int e = 0; e < names.size(); e++) {
      AtomicLong next = new AtomicLong();
      Engine engine = engines.get(e);
      table.row("load", names.get(e), 8, (thread, outcome) -> {
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
      table.row(row, names.get(e), threads, (thread, outcome) -> {
        Workload.Draws draws = new Workload.Draws(Workload.mix(1000 * round + thread));
        for (long k = 0; System.nanoTime() - start < seconds * 1e9; k++) {
          Table.pace(start, k, threads, rate);
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

  private void restart(String name, Engine engine) throws Exception {
    long start = System.nanoTime();
    engine.close();
    long closed = System.nanoTime();
    try (Engine again = open(name)) {
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
}

package org.refdb.bench.caches;

import java.util.concurrent.atomic.AtomicLong;

/**
 * A working set of about twice the room. Each insert is followed by a get of a zipfian key among those inserted so far.
 * Then come half as many inserts, each followed by a get of one of a few hot keys. Each engine has its own kind of
 * room: refdb has a limit in bytes; ChronicleMap is told half the number of entries, and grows to three times what it
 * was told before it refuses any; H2 as Gerrit uses it has no limit until it is pruned.
 */
final class Pressure {
  private static final int THREADS = 8;
  private static final int HOT_KEYS = 2000;

  /** What a record of this workload takes on the average, in bytes. */
  private static final long ENTRY_BYTES = 1240;

  private final Table table;
  private final long entries;
  private final double seconds;
  private final double rate;

  /**
   * {@code rate}: operations a second of all threads together, for {@code seconds}; 0: all entries, as fast as it goes.
   */
  Pressure(Table table, long entries, double seconds, double rate) {
    this.table = table;
    this.entries = entries;
    this.seconds = seconds;
    this.rate = rate;
  }

  void run(String name) throws Exception {
    String folder = name + (rate > 0 ? "-pressure-paced" : "-pressure");
    try (Engine engine = Engine.open(name, table.of(folder), entries / 2, entries / 2 * ENTRY_BYTES)) {
      Workload.Zipf zipf = new Workload.Zipf(entries);
      inserts("insert", engine, folder, 0, entries, (draws, inserted) -> zipf.key(draws) % inserted);
      for (long i = 0; i < HOT_KEYS; i++) {
        engine.put(Workload.key(i), Workload.value(i));
      }
      inserts("insert, hot keys", engine, folder, entries, entries + entries / 2,
          (draws, inserted) -> Long.remainderUnsigned(draws.draw(), HOT_KEYS));
    }
  }

  private interface Choice {
    long key(Workload.Draws draws, long inserted);
  }

  private void inserts(String row, Engine engine, String folder, long first, long end, Choice choice)
      throws Exception {
    long start = System.nanoTime();
    AtomicLong next = new AtomicLong(first);
    String title = row + (rate > 0 ? " paced " : " ") + THREADS + " threads";
    table.settledRow(title, folder, THREADS, (thread, outcome) -> {
      Workload.Draws draws = new Workload.Draws(Workload.mix(10_000 + thread));
      for (long k = 0; rate == 0 || System.nanoTime() - start < seconds * 1e9; k++) {
        Table.pace(start, k, THREADS, rate / 2); // each step is two operations
        long i = next.getAndIncrement();
        if (i >= end) {
          return;
        }
        outcome.put(engine, i);
        outcome.get(engine, choice.key(draws, i + 1));
      }
    });
  }
}

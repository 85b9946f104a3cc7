package org.refdb.bench.caches;

/** The times and results of one thread, or, after merging, of all threads. */
final class Outcome {
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

  /** Gets and checks the value of key {@code i}. */
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

  /** Puts the value of key {@code i}. */
  void put(Engine engine, long i) throws Exception {
    byte[] key = Workload.key(i);
    byte[] value = Workload.value(i);
    long start = System.nanoTime();
    boolean stored = engine.put(key, value);
    puts.add(System.nanoTime() - start);
    refused += stored ? 0 : 1;
  }
}

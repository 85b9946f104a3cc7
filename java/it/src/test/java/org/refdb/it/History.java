package org.refdb.it;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/** What clients asked and were told, a line each, as the checker in tests/histories reads it. */
final class History implements AutoCloseable {
  /** The old value of an update whose client requires only that the ref exists, whatever its value. */
  static final String ANY = "*";

  /** Prefix of the name of a ref on the disk, which sets it apart from the same ref in etcd. */
  private static final String ON_DISK = "disk:";

  /** What a client was told. */
  enum Outcome {
    DONE,
    UNKNOWN,
    /** Nothing has changed, for sure. Such an update is not recorded, so the checker fails if anybody sees it. */
    NOTHING
  }

  private final PrintWriter lines;
  private final boolean hasOneDisk;
  private final long start = System.nanoTime();
  private final AtomicInteger clients = new AtomicInteger();
  private final Map<Outcome, AtomicInteger> counts = new EnumMap<>(Outcome.class);

  /**
   * @param hasOneDisk whether all nodes share one disk, so that the refs on it are recorded too
   */
  History(Path file, boolean hasOneDisk) throws IOException {
    // Each line is flushed, so that the file has them all even if this program is stopped.
    lines = new PrintWriter(Files.newBufferedWriter(file), true);
    this.hasOneDisk = hasOneDisk;
    for (Outcome outcome : Outcome.values()) {
      counts.put(outcome, new AtomicInteger());
    }
  }

  /** Returns the number of a new client, which does one thing after the other. */
  int client() {
    return clients.incrementAndGet();
  }

  long now() {
    return System.nanoTime() - start;
  }

  int count(Outcome outcome) {
    return counts.get(outcome).get();
  }

  /** Records an update from a value to another; an empty value means that there is no ref. */
  void update(int client, String ref, long call, Outcome outcome, String from, String to) {
    counts.get(outcome).incrementAndGet();
    if (outcome != Outcome.NOTHING) {
      String more = ",\"from\":\"" + from + "\",\"to\":\"" + to + "\"";
      record(client, "put", ref, call, outcome, more);
      if (hasOneDisk) {
        record(client, "put", ON_DISK + ref, call, outcome, more);
      }
    }
  }

  /** Records a value that etcd has. */
  void read(int client, String ref, long call, String value) {
    record(client, "read", ref, call, Outcome.DONE, ",\"to\":\"" + value + "\"");
  }

  /** Records a value that a node reports, if all nodes share one disk. */
  void readOnDisk(int client, String ref, long call, String value) {
    if (hasOneDisk) {
      record(client, "read", ON_DISK + ref, call, Outcome.DONE, ",\"to\":\"" + value + "\"");
    }
  }

  private void record(int client, String kind, String ref, long call, Outcome outcome, String more) {
    long end = outcome == Outcome.UNKNOWN ? -1 : now();
    lines.println(
        "{\"client\":%d,\"kind\":\"%s\",\"ref\":\"%s\",\"call\":%d,\"return\":%d,\"result\":\"%s\"%s}"
            .formatted(client, kind, ref, call, end, outcome.name().toLowerCase(Locale.ROOT), more));
  }

  @Override
  public void close() {
    lines.close();
  }
}

package org.refdb.it;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/**
 * Reads recordings of a server's look-ups in the persistent caches.
 *
 * <p>{@code times (NAME RECORDING)...} prints a table of how long look-ups took. {@code keys TRACE RECORDING} prints
 * which caches were asked. It writes the keys of the look-ups to {@code TRACE}, in their order. Each key is a number in
 * LEB128, and numbers are given in the order in which keys first appear.
 */
final class CacheTrace {
  private static final int LOW_BITS = 7;
  private static final int MORE = 1 << LOW_BITS;

  private CacheTrace() {}

  public static void main(String[] arguments) throws IOException {
    if (arguments[0].equals("keys")) {
      List<RecordedEvent> events = read(Path.of(arguments[2]));
      printCaches(events);
      Files.write(Path.of(arguments[1]), trace(events));
      return;
    }
    System.out.println("| | look-ups | found | key p50 | p99 | store p50 | p99 | key and store, mean | value p50 | p99 | value bytes p50 | p99 |");
    System.out.println("|-|-|-|-|-|-|-|-|-|-|-|-|");
    for (int i = 1; i + 1 < arguments.length; i += 2) {
      print(arguments[i], read(Path.of(arguments[i + 1])));
    }
  }

  private static void printCaches(List<RecordedEvent> events) {
    Map<String, List<RecordedEvent>> byCache =
        events.stream().collect(Collectors.groupingBy(event -> event.getString("cache"), TreeMap::new, Collectors.toList()));
    System.out.println("| cache | look-ups | keys | value bytes p50 | p99 |");
    System.out.println("|-|-|-|-|-|");
    byCache.forEach(
        (name, lookUps) -> {
          List<RecordedEvent> found = lookUps.stream().filter(event -> event.getBoolean("found")).toList();
          System.out.printf(
              "| %s | %d | %d | %.0f | %.0f |%n",
              name, lookUps.size(), lookUps.stream().mapToLong(event -> event.getLong("key")).distinct().count(),
              quantile(found, "bytes", 0.5), quantile(found, "bytes", 0.99));
        });
  }

  private static List<RecordedEvent> read(Path recording) throws IOException {
    List<RecordedEvent> events = new ArrayList<>();
    for (RecordedEvent event : RecordingFile.readAllEvents(recording)) {
      if (event.getEventType().getName().equals("org.refdb.CacheAccess")) {
        events.add(event);
      }
    }
    events.sort((a, b) -> a.getStartTime().compareTo(b.getStartTime()));
    return events;
  }

  private static void print(String name, List<RecordedEvent> events) {
    List<RecordedEvent> found = events.stream().filter(event -> event.getBoolean("found")).toList();
    System.out.printf(
        "| %s | %d | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f |%n",
        name, events.size(), found.size(), micros(found, "encodeNanos", 0.5), micros(found, "encodeNanos", 0.99),
        micros(found, "storeNanos", 0.5), micros(found, "storeNanos", 0.99),
        found.stream().mapToLong(event -> event.getLong("encodeNanos") + event.getLong("storeNanos")).average().orElse(0) / 1e3,
        micros(found, "decodeNanos", 0.5), micros(found, "decodeNanos", 0.99),
        quantile(found, "bytes", 0.5), quantile(found, "bytes", 0.99));
  }

  private static double micros(List<RecordedEvent> events, String field, double share) {
    return quantile(events, field, share) / 1e3;
  }

  private static double quantile(List<RecordedEvent> events, String field, double share) {
    double[] sorted = events.stream().mapToDouble(event -> ((Number) event.getValue(field)).doubleValue()).sorted().toArray();
    return sorted.length == 0 ? 0 : sorted[(int) Math.ceil(share * sorted.length) - 1];
  }

  private static byte[] trace(List<RecordedEvent> events) {
    Map<Long, Integer> numbers = new HashMap<>();
    ByteArrayOutputStream trace = new ByteArrayOutputStream();
    for (RecordedEvent event : events) {
      int number = numbers.computeIfAbsent(event.getLong("key"), key -> numbers.size());
      for (; number >= MORE; number >>>= LOW_BITS) {
        trace.write(number % MORE | MORE);
      }
      trace.write(number);
    }
    return trace.toByteArray();
  }
}

package org.refdb.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/**
 * How much of each journey of one user is spent in questions to and updates of a ref database. The server's flight
 * recording has an event for each call of such a method. A call inside another one is not counted.
 *
 * <p>Arguments: what the rows begin with, the recording, the file that {@link Load} wrote. Prints a line for each kind
 * of journey: its name, how many there were, and the means of milliseconds, of milliseconds in ref databases with their
 * share in percent, and of calls.
 */
final class RefShare {
  private RefShare() {}

  private record Call(Instant begun, Instant ended) {}

  private static final class Journey {
    private int count;
    private Duration all = Duration.ZERO;
    private Duration refs = Duration.ZERO;
    private long calls;
  }

  public static void main(String[] arguments) throws IOException {
    List<Call> calls = outermost(Path.of(arguments[1]));
    Map<String, Journey> journeys = new LinkedHashMap<>();
    for (String line : Files.readAllLines(Path.of(arguments[2]))) {
      String[] words = line.split(" ");
      Instant begun = Instant.parse(words[1]);
      Instant ended = Instant.parse(words[2]);
      Journey journey = journeys.computeIfAbsent(words[0], name -> new Journey());
      journey.count++;
      journey.all = journey.all.plus(Duration.between(begun, ended));
      for (Call call : calls) {
        if (!call.begun.isBefore(begun) && call.begun.isBefore(ended)) {
          journey.refs = journey.refs.plus(Duration.between(call.begun, call.ended));
          journey.calls++;
        }
      }
    }
    journeys.forEach(
        (name, journey) ->
            System.out.printf(
                "%s %s %d %.1f %.1f %.0f %d%n",
                arguments[0], name, journey.count, millis(journey.all, journey.count), millis(journey.refs, journey.count),
                100.0 * journey.refs.toNanos() / journey.all.toNanos(), journey.calls / journey.count));
  }

  private static double millis(Duration sum, int count) {
    return sum.toNanos() / 1e6 / count;
  }

  /** The calls of each thread that are not part of another. */
  private static List<Call> outermost(Path recording) throws IOException {
    Map<Long, List<Call>> byThread = new HashMap<>();
    try (RecordingFile file = new RecordingFile(recording)) {
      while (file.hasMoreEvents()) {
        RecordedEvent event = file.readEvent();
        if (event.getEventType().getName().equals("jdk.MethodTrace")) {
          byThread
              .computeIfAbsent(event.getThread().getId(), thread -> new ArrayList<>())
              .add(new Call(event.getStartTime(), event.getEndTime()));
        }
      }
    }
    List<Call> outermost = new ArrayList<>();
    for (List<Call> calls : byThread.values()) {
      Call[] sorted = calls.toArray(Call[]::new);
      Arrays.sort(sorted, Comparator.comparing(Call::begun).thenComparing(Call::ended, Comparator.reverseOrder()));
      Instant end = Instant.MIN;
      for (Call call : sorted) {
        if (call.ended.isAfter(end)) {
          outermost.add(call);
          end = call.ended;
        }
      }
    }
    return outermost;
  }
}

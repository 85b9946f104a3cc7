package org.refdb.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.ToDoubleFunction;

/**
 * One user makes each journey in two places, one right after the other. These are two projects of one server, or two
 * servers, so that both meet the same disturbances of the machine. The place that comes first changes from round to
 * round.
 *
 * <p>Arguments: address and project here, address and project there, rounds that are measured, rounds before that, a
 * file, which journeys. If no push is among them, one is made first. Each measured pair is appended to the file as a
 * line. Then the rows of a table of all lines are printed. An interval holds 95 % of the figures of samples drawn anew
 * from the measured pairs.
 */
final class Pairs {
  private static final int DRAWS = 4000;

  private record Pair(double here, double there) {}

  private Pairs() {}

  public static void main(String[] arguments) throws Exception {
    Path scratch = Files.createTempDirectory("refdb-pairs");
    Journeys.makeAccounts(arguments[0]);
    Journeys.makeAccounts(arguments[2]);
    int rounds = Integer.parseInt(arguments[4]);
    int before = Integer.parseInt(arguments[5]);
    Path file = Path.of(arguments[6]);
    List<String> journeys = List.of(arguments[7].split(" "));
    List<String> lines = new ArrayList<>();
    try (Journeys here = new Journeys(arguments[0], arguments[1], scratch.resolve("here"));
        Journeys there = new Journeys(arguments[2], arguments[3], scratch.resolve("there"))) {
      if (!journeys.contains("push")) {
        pair("push", here, there, true);
      }
      for (int round = 0; round < before + rounds; round++) {
        for (String journey : journeys) {
          Pair pair = pair(journey, here, there, round % 2 == 0);
          if (round >= before) {
            lines.add(String.format("%s %.3f %.3f", journey, pair.here, pair.there));
          }
        }
        here.clean();
        there.clean();
      }
    }
    Files.write(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    Commands.run(scratch.getParent(), "rm", "-rf", scratch.toString());
    print(file);
  }

  private static Pair pair(String journey, Journeys here, Journeys there, boolean hereFirst) throws Exception {
    if (hereFirst) {
      double first = millis(journey, here);
      return new Pair(first, millis(journey, there));
    }
    double first = millis(journey, there);
    return new Pair(millis(journey, here), first);
  }

  private static double millis(String journey, Journeys journeys) throws Exception {
    long start = System.nanoTime();
    journeys.make(journey);
    return (System.nanoTime() - start) / 1e6;
  }

  private static void print(Path file) throws IOException {
    Map<String, List<Pair>> pairs = new LinkedHashMap<>();
    for (String line : Files.readAllLines(file)) {
      String[] words = line.split(" ");
      Pair pair = new Pair(Double.parseDouble(words[1]), Double.parseDouble(words[2]));
      pairs.computeIfAbsent(words[0], name -> new ArrayList<>()).add(pair);
    }
    pairs.forEach(
        (journey, list) -> {
          Pair[] all = list.toArray(Pair[]::new);
          System.out.printf(
              "| %s | %d | %.1f | %.1f | %s | %s |%n",
              journey, all.length, median(all, Pair::here), median(all, Pair::there),
              interval(all, "%.1f", some -> median(some, pair -> pair.here - pair.there)),
              interval(all, "%.2f", some -> median(some, Pair::here) / median(some, Pair::there)));
        });
  }

  /** Formats a figure of the pairs, and the interval that holds 95 % of the figures of drawn samples. */
  private static String interval(Pair[] pairs, String format, ToDoubleFunction<Pair[]> figure) {
    Random random = new Random(1);
    double[] drawn = new double[DRAWS];
    Pair[] some = new Pair[pairs.length];
    for (int draw = 0; draw < DRAWS; draw++) {
      Arrays.setAll(some, i -> pairs[random.nextInt(pairs.length)]);
      drawn[draw] = figure.applyAsDouble(some);
    }
    Arrays.sort(drawn);
    return String.format(
        format + " (" + format + " to " + format + ")",
        figure.applyAsDouble(pairs), drawn[DRAWS / 40], drawn[DRAWS - 1 - DRAWS / 40]);
  }

  private static double median(Pair[] pairs, ToDoubleFunction<Pair> figure) {
    double[] sorted = Arrays.stream(pairs).mapToDouble(figure).sorted().toArray();
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
}

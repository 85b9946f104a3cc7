package org.refdb.it;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Compares servers that run side by side on copies of one site. In each round each of them answers the same requests,
 * in turn, while the others rest. The first server is the one that the others are compared with.
 *
 * <p>Arguments: {@code CHANGES CLIENTS WARM_UP ROUNDS REQUESTS (NAME URL PID)...}. Looks at {@code WARM_UP} changes on
 * each server first. Then it prints a table of {@code ROUNDS} rounds of {@code REQUESTS} looks each.
 */
final class CacheRounds {
  private static final long SEED = 21;
  /** What /proc counts processor time in, on every Linux that Java runs on. */
  private static final double TICKS_A_SECOND = 100;

  private final int changes;
  private final int clients;
  private final List<Server> servers = new ArrayList<>();

  private CacheRounds(int changes, int clients) {
    this.changes = changes;
    this.clients = clients;
  }

  /** One of the servers, with what it did. */
  private static final class Server {
    final String name;
    final String url;
    final Path stat;
    final List<DetailReader> readers = new ArrayList<>();
    final List<Round> rounds = new ArrayList<>();

    Server(String name, String url, String pid, int clients) throws IOException {
      this.name = name;
      this.url = url;
      this.stat = Path.of("/proc", pid, "stat");
      for (int i = 0; i < clients; i++) {
        readers.add(DetailReader.loggedIn(url));
      }
    }

    double processorMillis() throws IOException {
      String text = Files.readString(stat);
      String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ");
      return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / TICKS_A_SECOND * 1000;
    }

    /** Look-ups in the persistent tier, of all caches; NaN where the server does not tell. */
    double gets() {
      try {
        double gets = 0;
        for (JsonElement each : new Rest(url, "admin", "secret").get("/config/server/refdb~caches").getAsJsonArray()) {
          JsonObject cache = each.getAsJsonObject();
          gets += cache.get("hits").getAsLong() + cache.get("misses").getAsLong();
        }
        return gets;
      } catch (IOException | AssertionError | IllegalStateException e) {
        return Double.NaN;
      }
    }
  }

  /** What one server did in one round: milliseconds, and look-ups a request. */
  private record Round(double p50, double p95, double p99, double mean, double processor, double gets) {}

  public static void main(String[] arguments) throws Exception {
    List<String> left = new ArrayList<>(List.of(arguments));
    CacheRounds all = new CacheRounds(Integer.parseInt(left.removeFirst()), Integer.parseInt(left.removeFirst()));
    int warmUp = Integer.parseInt(left.removeFirst());
    int rounds = Integer.parseInt(left.removeFirst());
    int requests = Integer.parseInt(left.removeFirst());
    while (!left.isEmpty()) {
      all.servers.add(new Server(left.removeFirst(), left.removeFirst(), left.removeFirst(), all.clients));
    }
    for (Server server : all.servers) {
      all.round(server, warmUp, new Random(SEED));
    }
    for (int round = 0; round < rounds; round++) {
      for (int i = 0; i < all.servers.size(); i++) {
        Server server = all.servers.get((i + round) % all.servers.size()); // nobody is always the first
        server.rounds.add(all.round(server, requests, new Random(SEED + round)));
      }
      System.err.println("round " + (round + 1) + " of " + rounds);
    }
    all.print();
  }

  private Round round(Server server, int requests, Random random) throws Exception {
    int[] numbers = random.ints(requests, 1, changes + 1).toArray();
    long[] nanos = new long[requests];
    AtomicInteger next = new AtomicInteger();
    double gets = server.gets();
    double processor = server.processorMillis();
    Parallel.run(
        clients,
        thread -> {
          for (int i = next.getAndIncrement(); i < requests; i = next.getAndIncrement()) {
            long before = System.nanoTime();
            server.readers.get(thread).detail(numbers[i]);
            nanos[i] = System.nanoTime() - before;
          }
        });
    processor = server.processorMillis() - processor;
    gets = server.gets() - gets;
    double mean = Arrays.stream(nanos).average().orElseThrow() / 1e6;
    Arrays.sort(nanos);
    return new Round(
        DetailReader.millis(nanos, 0.5),
        DetailReader.millis(nanos, 0.95),
        DetailReader.millis(nanos, 0.99),
        mean,
        processor / requests,
        gets / requests);
  }

  private interface Figure {
    double of(Round round);
  }

  private static final List<String> TITLES = List.of("p50", "p95", "p99", "mean", "processor", "gets");
  private static final List<Figure> FIGURES =
      List.of(Round::p50, Round::p95, Round::p99, Round::mean, Round::processor, Round::gets);
  private static final int PAIRED = 5; // gets are counted, not timed

  private void print() {
    System.out.println("| caches | " + String.join(" | ", TITLES) + " |");
    System.out.println("|-|-|-|-|-|-|-|");
    for (Server server : servers) {
      StringBuilder row = new StringBuilder("| " + server.name + " |");
      for (Figure figure : FIGURES) {
        double median = median(server.rounds.stream().mapToDouble(figure::of).toArray());
        row.append(Double.isNaN(median) ? " |" : String.format(" %.2f |", median));
      }
      System.out.println(row);
    }
    System.out.println();
    System.out.println("| beside " + servers.getFirst().name + ", round by round | p50 | p95 | p99 | mean | processor |");
    System.out.println("|-|-|-|-|-|-|");
    for (Server server : servers.subList(1, servers.size())) {
      StringBuilder row = new StringBuilder("| " + server.name + ": median difference, rounds ahead |");
      for (Figure figure : FIGURES.subList(0, PAIRED)) {
        double[] differences = new double[server.rounds.size()];
        for (int i = 0; i < differences.length; i++) {
          differences[i] = figure.of(server.rounds.get(i)) - figure.of(servers.getFirst().rounds.get(i));
        }
        long ahead = Arrays.stream(differences).filter(difference -> difference < 0).count();
        row.append(String.format(" %+.2f, %d of %d |", median(differences), ahead, differences.length));
      }
      System.out.println(row);
    }
  }

  private static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[(sorted.length - 1) / 2];
  }
}

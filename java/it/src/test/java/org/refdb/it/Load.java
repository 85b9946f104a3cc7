package org.refdb.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Users at work on one Gerrit project: each makes all {@link Journeys} a round. The times at which each of these began
 * and ended are added to a file.
 *
 * <p>Arguments: address, project, users, rounds that are measured, rounds before that, the file. It is a closed loop:
 * every user waits for the answer before going on. With the property {@code refdb.server.pid} the server's threads are
 * shown when a journey takes very long.
 */
final class Load {
  private static final Duration STALL = Duration.ofSeconds(20);

  private final String url;
  private final String project;
  private final Path scratch;

  /** A line {@code JOURNEY BEGUN ENDED MILLISECONDS} for each journey that is over. */
  private final ConcurrentLinkedQueue<String> times = new ConcurrentLinkedQueue<>();

  /** When the present journey of each user began, in {@link System#nanoTime}. */
  private final Map<Thread, Long> underWay = new ConcurrentHashMap<>();

  private Load(String url, String project, Path scratch) {
    this.url = url;
    this.project = project;
    this.scratch = scratch;
  }

  public static void main(String[] arguments) throws Exception {
    Path scratch = Files.createTempDirectory("refdb-load");
    Load load = new Load(arguments[0], arguments[1], scratch);
    String server = System.getProperty("refdb.server.pid");
    if (server != null) {
      Thread.ofPlatform().daemon().start(() -> load.watch(server));
    }
    Journeys.makeAccounts(arguments[0]);
    int users = Integer.parseInt(arguments[2]);
    load.run(users, Integer.parseInt(arguments[4]), "warm-up");
    load.times.clear();
    load.run(users, Integer.parseInt(arguments[3]), "user");
    Files.write(Path.of(arguments[5]), load.times, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    Commands.run(scratch.getParent(), "rm", "-rf", scratch.toString());
  }

  private void run(int users, int rounds, String name) throws Exception {
    List<Throwable> failures = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < users; i++) {
      String user = name + "-" + i;
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      work(user, rounds);
                    } catch (Exception | AssertionError e) {
                      synchronized (failures) {
                        failures.add(e);
                      }
                    }
                  }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    if (!failures.isEmpty()) {
      throw new IllegalStateException("a user failed", failures.getFirst());
    }
  }

  private void work(String user, int rounds) throws Exception {
    try (Journeys journeys = new Journeys(url, project, scratch.resolve(user))) {
      for (int round = 0; round < rounds; round++) {
        for (String journey : Journeys.NAMES) {
          timed(journey, () -> journeys.make(journey));
        }
        journeys.clean();
      }
    }
  }

  private void timed(String journey, Callable<Object> work) throws Exception {
    Instant begun = Instant.now();
    long start = System.nanoTime();
    underWay.put(Thread.currentThread(), start);
    try {
      work.call();
    } finally {
      underWay.remove(Thread.currentThread());
    }
    double millis = (System.nanoTime() - start) / 1e6;
    times.add(String.format("%s %s %s %.3f", journey, begun, Instant.now(), millis));
  }

  /** Shows where the server's threads are, and the user's, once a journey takes very long. */
  private void watch(String server) {
    long shown = System.nanoTime();
    while (true) {
      try {
        Thread.sleep(STALL.toMillis() / 10);
        for (Map.Entry<Thread, Long> journey : underWay.entrySet()) {
          if (journey.getValue() > shown && System.nanoTime() - journey.getValue() > STALL.toNanos()) {
            shown = System.nanoTime();
            System.err.println("a journey takes more than " + STALL.toSeconds() + " s");
            for (StackTraceElement frame : journey.getKey().getStackTrace()) {
              System.err.println("  " + frame);
            }
            String jstack = Path.of(System.getProperty("java.home"), "bin/jstack").toString();
            System.err.println(Commands.attempt(scratch, jstack, server).text());
          }
        }
      } catch (InterruptedException | IOException e) {
        System.err.println("no longer watched for stalls: " + e);
        return;
      }
    }
  }
}

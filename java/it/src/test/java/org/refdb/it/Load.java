package org.refdb.it;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Users at work on one Gerrit project: each pushes changes, looks at them, votes, submits, lists refs and clones. How long
 * each of these took is printed as percentiles, a line a journey.
 *
 * <p>Arguments: address, project, users, rounds that are measured, rounds before that; a file that gets when each journey
 * began and ended, if wanted. It is a closed loop: every user waits for the answer before going on.
 */
final class Load {
  private final String url;
  private final String project;
  private final Path scratch;
  private final Map<String, ConcurrentLinkedQueue<Long>> nanos = new LinkedHashMap<>();

  /** {@code JOURNEY BEGUN ENDED}. */
  private final ConcurrentLinkedQueue<String> times = new ConcurrentLinkedQueue<>();

  private Load(String url, String project, Path scratch) {
    this.url = url;
    this.project = project;
    this.scratch = scratch;
    for (String journey : List.of("push", "detail", "query", "review", "submit", "ls-remote", "clone")) {
      nanos.put(journey, new ConcurrentLinkedQueue<>());
    }
  }

  public static void main(String[] arguments) throws Exception {
    Path scratch = Files.createTempDirectory("refdb-load");
    Load load = new Load(arguments[0], arguments[1], scratch);
    int users = Integer.parseInt(arguments[2]);
    load.run(users, Integer.parseInt(arguments[4]), "warm-up");
    load.nanos.values().forEach(ConcurrentLinkedQueue::clear);
    load.times.clear();
    load.run(users, Integer.parseInt(arguments[3]), "user");
    load.print();
    if (arguments.length > 5) {
      Files.write(Path.of(arguments[5]), load.times);
    }
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
    Rest rest = new Rest(url, "admin", "secret");
    try (Author author = new Author(scratch.resolve(user), url, project)) {
      for (int round = 0; round < rounds; round++) {
        String text = user + " " + round;
        Author.Change change = timed("push", () -> author.pushChange(text));
        String path = "/changes/" + project + "~" + change.number();
        timed(
            "detail",
            () -> rest.get(path + "/detail?o=CURRENT_REVISION&o=CURRENT_COMMIT&o=CURRENT_FILES&o=CURRENT_ACTIONS&o=SUBMITTABLE"));
        timed("query", () -> rest.get("/changes/?q=status:open+project:" + project + "&n=25&o=LABELS"));
        timed("review", () -> rest.good("POST", path + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}"));
        timed("submit", () -> rest.good("POST", path + "/submit", "{}"));
        timed("ls-remote", author::masterAdvertised);
        Path clone = scratch.resolve(user + "-" + round);
        timed(
            "clone",
            () -> {
              new Author(clone, url, project).close();
              return null;
            });
        Commands.run(scratch, "rm", "-rf", clone.toString());
      }
    }
  }

  private <T> T timed(String journey, Callable<T> work) throws Exception {
    Instant begun = Instant.now();
    long start = System.nanoTime();
    T result = work.call();
    nanos.get(journey).add(System.nanoTime() - start);
    times.add(journey + " " + begun + " " + Instant.now());
    return result;
  }

  private void print() {
    nanos.forEach(
        (journey, all) -> {
          long[] sorted = all.stream().mapToLong(Long::longValue).toArray();
          Arrays.sort(sorted);
          System.out.printf(
              "%s %d %.1f %.1f %.1f%n",
              journey, sorted.length, at(sorted, 0.5), at(sorted, 0.9), at(sorted, 0.99));
        });
  }

  private static double at(long[] sorted, double share) {
    return sorted[(int) Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] / 1e6;
  }
}

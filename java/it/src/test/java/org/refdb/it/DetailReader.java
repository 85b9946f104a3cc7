package org.refdb.it;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.PrimitiveIterator;
import java.util.Random;

/**
 * Looks at changes as Gerrit's web UI does, by a number of clients that wait for their answers. The order looks random
 * and is always the same.
 *
 * <p>{@code all URL CHANGES CLIENTS}: each change once. {@code timed URL CHANGES CLIENTS SECONDS}: any of them for this
 * time. Both print requests a second, and the milliseconds of mean, p50, p95 and p99. They end with
 * {@link Result#foundOnDisk}.
 */
final class DetailReader {
  /** What the web UI of Gerrit 3.13 asks for. */
  static final String OPTIONS =
      String.join(
          "&o=", "ALL_COMMITS", "ALL_REVISIONS", "CHANGE_ACTIONS", "DETAILED_LABELS", "DOWNLOAD_COMMANDS", "MESSAGES",
          "PARENTS", "REVIEWER_UPDATES", "SKIP_DIFFSTAT", "SUBMITTABLE", "SUBMIT_REQUIREMENTS", "WEB_LINKS");

  private static final Duration TIMEOUT = Duration.ofMinutes(3);
  private static final long SEED = 20;
  private static final long NEVER = Long.MIN_VALUE;

  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String url;
  private String cookie = "";

  private DetailReader(String url) {
    this.url = url;
  }

  /**
   * What clients saw.
   *
   * @param p50 milliseconds, as the mean and the other percentiles
   * @param foundOnDisk how many percent of the look-ups of change notes that memory could not answer were answered by
   *     the disk, since the start of the server
   */
  record Result(int requests, double seconds, double mean, double p50, double p95, double p99, int foundOnDisk) {}

  public static void main(String[] arguments) throws Exception {
    String url = arguments[1];
    int changes = Integer.parseInt(arguments[2]);
    int clients = Integer.parseInt(arguments[3]);
    Result result =
        arguments[0].equals("all")
            ? readAll(url, changes, clients)
            : readFor(url, changes, clients, Duration.ofSeconds(Long.parseLong(arguments[4])));
    System.out.printf(
        "%.1f %.2f %.2f %.2f %.2f %d%n",
        result.requests() / result.seconds(), result.mean(), result.p50(), result.p95(), result.p99(), result.foundOnDisk());
  }

  /** A client with a session. */
  static DetailReader loggedIn(String url) throws IOException {
    DetailReader reader = new DetailReader(url);
    reader.login();
    return reader;
  }

  static Result readAll(String url, int changes, int clients) throws Exception {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 1; i <= changes; i++) {
      numbers.add(i);
    }
    Collections.shuffle(numbers, new Random(SEED));
    return read(url, clients, numbers.iterator(), NEVER);
  }

  private static Result readFor(String url, int changes, int clients, Duration time) throws Exception {
    PrimitiveIterator.OfInt numbers = new Random(SEED).ints(1, changes + 1).iterator();
    return read(url, clients, numbers, System.nanoTime() + time.toNanos());
  }

  private static Result read(String url, int clients, Iterator<Integer> numbers, long endNanos) throws Exception {
    List<DetailReader> readers = new ArrayList<>();
    for (int i = 0; i < clients; i++) {
      readers.add(loggedIn(url));
    }
    List<Long> times = Collections.synchronizedList(new ArrayList<>());
    long start = System.nanoTime();
    Parallel.run(
        clients,
        thread -> {
          for (Integer number = next(numbers); number != null; number = next(numbers)) {
            long before = System.nanoTime();
            if (endNanos != NEVER && before - endNanos >= 0) {
              return;
            }
            readers.get(thread).detail(number);
            times.add(System.nanoTime() - before);
          }
        });
    double seconds = (System.nanoTime() - start) / 1e9;
    long[] nanos = times.stream().mapToLong(Long::longValue).sorted().toArray();
    double mean = Arrays.stream(nanos).average().orElse(0) / 1e6;
    return new Result(
        nanos.length, seconds, mean, millis(nanos, 0.5), millis(nanos, 0.95), millis(nanos, 0.99), foundOnDisk(url));
  }

  private static Integer next(Iterator<Integer> numbers) {
    synchronized (numbers) {
      return numbers.hasNext() ? numbers.next() : null;
    }
  }

  private static int foundOnDisk(String url) throws IOException {
    JsonObject notes =
        new Rest(url, "admin", "secret").get("/config/server/caches/change_notes").getAsJsonObject();
    JsonObject ratios = notes.getAsJsonObject("hit_ratio");
    return ratios != null && ratios.has("disk") ? ratios.get("disk").getAsInt() : 0;
  }

  static double millis(long[] sorted, double share) {
    return sorted[(int) Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] / 1e6;
  }

  /** As a browser: later requests carry the session's cookie. */
  private void login() throws IOException {
    HttpResponse<String> response = ask("/login/?account_id=1000000");
    for (String set : response.headers().allValues("Set-Cookie")) {
      cookie += (cookie.isEmpty() ? "" : "; ") + set.substring(0, set.indexOf(';'));
    }
    if (!cookie.contains("GerritAccount=")) {
      throw new IOException("no session: " + response.statusCode() + " " + response.body());
    }
  }

  void detail(int number) throws IOException {
    JsonObject change = json("/changes/" + ChangeMaker.PROJECT + "~" + number + "/detail?o=" + OPTIONS).getAsJsonObject();
    if (change.get("_number").getAsInt() != number || change.getAsJsonArray("messages").size() != 4) {
      throw new IllegalStateException("change " + number + " is answered with " + change);
    }
  }

  /** Requests a path, which must succeed, and returns the JSON. */
  JsonElement json(String path) throws IOException {
    HttpResponse<String> response = ask(path);
    String body = response.body();
    if (response.statusCode() != 200) {
      throw new IOException(path + ": " + response.statusCode() + " " + body);
    }
    return JsonParser.parseString(body.substring(body.indexOf('\n') + 1));
  }

  private HttpResponse<String> ask(String path) throws IOException {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(TIMEOUT);
    if (!cookie.isEmpty()) {
      request.header("Cookie", cookie);
    }
    try {
      return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    }
  }
}

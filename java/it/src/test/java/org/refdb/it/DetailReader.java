package org.refdb.it;

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
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Looks at changes as Gerrit's web UI does, each once, in an order that looks random and is always the same, by a number
 * of clients that wait for their answers.
 *
 * <p>{@code first URL}: waits for a server that is being started; prints the milliseconds until it answered with the first
 * change. {@code all URL CHANGES CLIENTS}: prints requests a second, the milliseconds of p50, p95 and p99, and what share
 * of the changes' notes came from the disk, in percent.
 */
final class DetailReader {
  /** What the web UI of Gerrit 3.13 asks for. */
  private static final String OPTIONS =
      String.join(
          "&o=", "ALL_COMMITS", "ALL_REVISIONS", "CHANGE_ACTIONS", "DETAILED_LABELS", "DOWNLOAD_COMMANDS", "MESSAGES",
          "PARENTS", "REVIEWER_UPDATES", "SKIP_DIFFSTAT", "SUBMITTABLE", "SUBMIT_REQUIREMENTS", "WEB_LINKS");

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final long RETRY_MILLIS = 20;
  private static final long SEED = 20;

  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String url;
  private String cookie = "";

  private DetailReader(String url) {
    this.url = url;
  }

  /**
   * What clients saw.
   *
   * @param p50 milliseconds, as the other percentiles
   * @param foundOnDisk what share of the look-ups of change notes that memory could not answer the disk did, in percent
   */
  record Result(int requests, double seconds, double p50, double p95, double p99, int foundOnDisk) {}

  public static void main(String[] arguments) throws Exception {
    String url = arguments[1];
    if (arguments[0].equals("first")) {
      first(url);
    } else {
      Result result = readAll(url, Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
      System.out.printf(
          "%.1f %.2f %.2f %.2f %d%n",
          result.requests() / result.seconds(), result.p50(), result.p95(), result.p99(), result.foundOnDisk());
    }
  }

  private static void first(String url) throws Exception {
    long start = System.nanoTime();
    DetailReader reader = new DetailReader(url);
    while (true) {
      try {
        reader.detail(1);
        System.out.printf("%.0f%n", (System.nanoTime() - start) / 1e6);
        return;
      } catch (IOException e) {
        if (System.nanoTime() - start > PATIENCE.toNanos()) {
          throw e;
        }
        Thread.sleep(RETRY_MILLIS);
      }
    }
  }

  static Result readAll(String url, int changes, int clients) throws Exception {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 1; i <= changes; i++) {
      numbers.add(i);
    }
    Collections.shuffle(numbers, new Random(SEED));
    List<DetailReader> readers = new ArrayList<>();
    for (int i = 0; i < clients; i++) {
      DetailReader reader = new DetailReader(url);
      reader.login();
      readers.add(reader);
    }
    long[] nanos = new long[changes];
    AtomicInteger next = new AtomicInteger();
    long start = System.nanoTime();
    Parallel.run(
        clients,
        thread -> {
          for (int i = next.getAndIncrement(); i < changes; i = next.getAndIncrement()) {
            long before = System.nanoTime();
            readers.get(thread).detail(numbers.get(i));
            nanos[i] = System.nanoTime() - before;
          }
        });
    double seconds = (System.nanoTime() - start) / 1e9;
    Arrays.sort(nanos);
    return new Result(
        changes, seconds, millis(nanos, 0.5), millis(nanos, 0.95), millis(nanos, 0.99), foundOnDisk(url));
  }

  private static int foundOnDisk(String url) throws IOException {
    JsonObject notes =
        new Rest(url, "admin", "secret").get("/config/server/caches/change_notes").getAsJsonObject();
    JsonObject ratios = notes.getAsJsonObject("hit_ratio");
    return ratios != null && ratios.has("disk") ? ratios.get("disk").getAsInt() : 0;
  }

  private static double millis(long[] sorted, double share) {
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

  private void detail(int number) throws IOException {
    HttpResponse<String> response =
        ask("/changes/" + ChangeMaker.PROJECT + "~" + number + "/detail?o=" + OPTIONS);
    String body = response.body();
    if (response.statusCode() != 200) {
      throw new IOException("change " + number + ": " + response.statusCode() + " " + body);
    }
    JsonObject change = JsonParser.parseString(body.substring(body.indexOf('\n') + 1)).getAsJsonObject();
    if (change.get("_number").getAsInt() != number || change.getAsJsonArray("messages").size() != 4) {
      throw new IllegalStateException("change " + number + " is answered with " + body);
    }
  }

  private HttpResponse<String> ask(String path) throws IOException {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(PATIENCE);
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

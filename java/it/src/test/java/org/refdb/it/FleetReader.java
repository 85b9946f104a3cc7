package org.refdb.it;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * Lists changes and looks at diffs that a server has not seen yet, and prints how long that takes.
 *
 * <p>Arguments: {@code URL CHANGES}. The older half of the changes is not measured, because a server that was just
 * started spends most of its time on compiling code. Prints the medians of a page of 25 changes and of a diff in
 * milliseconds, and, if the server shares its caches, what came of the look-ups in the shared tier.
 */
final class FleetReader {
  private static final int PAGE = 25;

  private FleetReader() {}

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0];
    int changes = Integer.parseInt(arguments[1]);
    DetailReader reader = DetailReader.loggedIn(url);
    read(reader, changes / 2, changes);
    Map<String, Long> before = shared(url);
    List<List<Long>> times = read(reader, 0, changes / 2);
    System.out.printf(Locale.ROOT, "%.2f %.2f", median(times.get(0)), median(times.get(1)));
    shared(url).forEach((event, count) -> System.out.print(" " + event + "=" + (count - before.get(event))));
    System.out.println();
  }

  /** Reads changes, given by their ranks, newest first. Returns the nanoseconds of each page, and of each diff. */
  private static List<List<Long>> read(DetailReader reader, int from, int to) throws IOException {
    List<Long> pages = new ArrayList<>();
    List<Long> diffs = new ArrayList<>();
    for (int start = from; start < to; start += PAGE) {
      long begun = System.nanoTime();
      String query = "/changes/?q=status:open&n=" + PAGE + "&S=" + start;
      JsonElement page = reader.json(query + "&o=LABELS&o=DETAILED_ACCOUNTS&o=SUBMIT_REQUIREMENTS");
      pages.add(System.nanoTime() - begun);
      for (JsonElement each : page.getAsJsonArray()) {
        String change = "/changes/" + ChangeMaker.PROJECT + "~" + each.getAsJsonObject().get("_number").getAsInt();
        JsonObject files = reader.json(change + "/revisions/current/files").getAsJsonObject();
        String file = files.keySet().stream().filter(name -> !name.startsWith("/")).findFirst().orElseThrow();
        begun = System.nanoTime();
        reader.json(change + "/revisions/current/files/" + Rest.id(file) + "/diff?context=ALL&intraline");
        diffs.add(System.nanoTime() - begun);
      }
    }
    return List.of(pages, diffs);
  }

  private static double median(List<Long> nanos) {
    return DetailReader.millis(nanos.stream().mapToLong(Long::longValue).sorted().toArray(), 0.5);
  }

  /** Returns what came of all look-ups in the shared tier so far; nothing if there is none. */
  private static Map<String, Long> shared(String url) throws IOException {
    Map<String, Long> counts = new TreeMap<>();
    Rest.Answer answer = new Rest(url, "admin", "secret").ask("GET", "/config/server/refdb~caches", null);
    if (answer.status() / 100 != 2) {
      return counts; // without refdb's plugin
    }
    for (JsonElement each : answer.json().getAsJsonArray()) {
      JsonElement shared = each.getAsJsonObject().get("shared");
      if (shared != null && shared.isJsonObject()) {
        for (String event : List.of("hits", "misses", "late", "not_asked", "out_of_budget", "failed")) {
          counts.merge(event, shared.getAsJsonObject().get(event).getAsLong(), Long::sum);
        }
      }
    }
    return counts;
  }
}

package org.refdb.it;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/**
 * Uses a server as people do in Gerrit's web UI. Each of a number of users takes a number of steps.
 *
 * <p>Arguments: {@code URL CHANGES USERS STEPS}. One step in ten is a page of 25 open changes, each of the others is a
 * change: its detail, comments and related changes, its files, and the diff of one file. After one change in ten the
 * user writes a message. New changes are looked at most: the popularity of a rank by age is one over the rank to the
 * power of 0.9.
 */
final class WebUsers {
  private static final long SEED = 22;
  private static final double SKEW = 0.9;
  private static final double PAGES = 0.1;
  private static final double MESSAGES = 0.1;
  private static final int PAGE = 25;
  private static final int PAGES_DEEP = 8;

  private final String url;
  /** For each rank, the sum of the popularities of all ranks up to it. */
  private final double[] sums;

  private WebUsers(String url, int changes) {
    this.url = url;
    sums = new double[changes];
    double sum = 0;
    for (int rank = 0; rank < changes; rank++) {
      sum += Math.pow(rank + 1, -SKEW);
      sums[rank] = sum;
    }
  }

  public static void main(String[] arguments) throws Exception {
    WebUsers all = new WebUsers(arguments[0], Integer.parseInt(arguments[1]));
    int steps = Integer.parseInt(arguments[3]);
    Parallel.run(Integer.parseInt(arguments[2]), user -> all.use(new Random(SEED + user), steps));
  }

  private void use(Random random, int steps) throws IOException {
    DetailReader browser = DetailReader.loggedIn(url);
    Rest writer = new Rest(url, "admin", "secret");
    for (int i = 0; i < steps; i++) {
      if (random.nextDouble() < PAGES) {
        int start = random.nextInt(PAGES_DEEP) * PAGE;
        browser.json("/changes/?q=status:open&n=" + PAGE + "&S=" + start + "&o=LABELS&o=DETAILED_ACCOUNTS&o=SUBMIT_REQUIREMENTS");
        continue;
      }
      String change = ChangeMaker.PROJECT + "~" + number(random);
      view(browser, change, random);
      if (random.nextDouble() < MESSAGES) {
        writer.good("POST", "/changes/" + change + "/revisions/current/review", "{\"message\":\"Look " + i + ".\"}");
      }
    }
  }

  private static void view(DetailReader browser, String change, Random random) throws IOException {
    String path = "/changes/" + change;
    browser.json(path + "/detail?o=" + DetailReader.OPTIONS);
    browser.json(path + "/comments?enable-context=true&context-padding=3");
    browser.json(path + "/revisions/current/related");
    List<String> files = new ArrayList<>(browser.json(path + "/revisions/current/files").getAsJsonObject().keySet());
    String file = files.get(random.nextInt(files.size()));
    browser.json(path + "/revisions/current/files/" + Rest.id(file) + "/diff?intraline&whitespace=IGNORE_NONE");
  }

  private int number(Random random) {
    double at = random.nextDouble() * sums[sums.length - 1];
    int found = Arrays.binarySearch(sums, at);
    int rank = found < 0 ? -found - 1 : found + 1; // the first whose sum is more
    return sums.length - Math.min(rank, sums.length - 1);
  }
}

package org.refdb.it;

import com.google.gson.JsonObject;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Fills a new Gerrit with changes that look alike. Its project {@value #PROJECT} gets changes 1 to N. Each has a new
 * file and three reviews: a message, an inline comment, and a message with a vote.
 *
 * <p>Arguments: address, number of changes, threads.
 */
final class ChangeMaker {
  static final String PROJECT = "details";
  private static final int LINES = 40;

  private ChangeMaker() {}

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0];
    int wanted = Integer.parseInt(arguments[1]);
    int threads = Integer.parseInt(arguments[2]);
    new Rest(url, "admin", "secret").good("PUT", "/projects/" + PROJECT, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
    AtomicInteger next = new AtomicInteger(1);
    Parallel.run(
        threads,
        thread -> {
          Rest rest = new Rest(url, "admin", "secret");
          for (int i = next.getAndIncrement(); i <= wanted; i = next.getAndIncrement()) {
            int number = make(rest, i);
            if (number > wanted) {
              throw new IllegalStateException("change " + number + " was made: this Gerrit is not new");
            }
            if (i % 100 == 0) {
              System.err.println(i + " of " + wanted + " changes made");
            }
          }
        });
  }

  private static int make(Rest rest, int i) throws Exception {
    String file = "folder-" + i % 50 + "/file-" + i + ".txt";
    StringBuilder patch =
        new StringBuilder("diff --git a/" + file + " b/" + file + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + file + "\n");
    patch.append("@@ -0,0 +1,").append(LINES).append(" @@\n");
    for (int line = 1; line <= LINES; line++) {
      patch.append("+line ").append(line).append(" of the file that change ").append(i).append(" adds\n");
    }
    JsonObject change = new JsonObject();
    change.addProperty("project", PROJECT);
    change.addProperty("branch", "master");
    change.addProperty("subject", "Add " + file + "\n\nIt has " + LINES + " lines, which nobody will read.");
    JsonObject input = new JsonObject();
    input.addProperty("patch", patch.toString());
    change.add("patch", input);
    int number = rest.good("POST", "/changes/", change.toString()).json().getAsJsonObject().get("_number").getAsInt();
    String review = "/changes/" + PROJECT + "~" + number + "/revisions/current/review";
    rest.good("POST", review, "{\"message\":\"A first look at change " + i + ": it seems to be what it says.\"}");
    rest.good(
        "POST",
        review,
        "{\"comments\":{\"" + file + "\":[{\"line\":" + (i % LINES + 1)
            + ",\"message\":\"This line could do with another word.\",\"unresolved\":true}]}}");
    rest.good("POST", review, "{\"message\":\"Good enough.\",\"labels\":{\"Code-Review\":2}}");
    return number;
  }
}

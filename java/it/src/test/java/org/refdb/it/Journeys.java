package org.refdb.it;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * What a user does in one Gerrit project, one journey after the other. A change is pushed and looked at, open changes
 * are listed, and the change is voted on and submitted. Then the user lists accounts, asks for master and clones.
 */
final class Journeys implements AutoCloseable {
  /** The journeys, in the order in which they must be made. */
  static final List<String> NAMES =
      List.of("push", "detail", "query", "review", "submit", "accounts", "ls-remote", "clone");

  private static final int ACCOUNTS = 500;
  private static final String ALL_ACCOUNTS = "/accounts/?q=is:active&n=" + ACCOUNTS + "&o=DETAILS";

  private final String url;
  private final String project;
  private final Path folder;
  private final Rest rest;
  private final Author author;
  private Author.Change change;
  private int made;

  /** Clones the project into a folder that does not exist yet. */
  Journeys(String url, String project, Path folder) throws Exception {
    this.url = url;
    this.project = project;
    this.folder = folder;
    this.rest = new Rest(url, "admin", "secret");
    this.author = new Author(folder, url, project);
  }

  /** Makes the accounts that a journey lists, and packs their refs. */
  static void makeAccounts(String url) throws IOException {
    Rest rest = new Rest(url, "admin", "secret");
    int known = rest.get(ALL_ACCOUNTS).getAsJsonArray().size();
    for (int i = known; i < ACCOUNTS; i++) {
      rest.good("PUT", "/accounts/user" + i, "{\"name\":\"User " + i + "\",\"email\":\"user" + i + "@example.com\"}");
    }
    if (known < ACCOUNTS) {
      rest.good("POST", "/projects/All-Users/gc", "{}");
    }
  }

  /** Makes one of {@link #NAMES}, and returns its result. */
  Object make(String journey) throws Exception {
    return switch (journey) {
      case "push" -> change = author.pushChange(folder.getFileName() + " " + made++);
      case "detail" ->
          rest.get(path() + "/detail?o=CURRENT_REVISION&o=CURRENT_COMMIT&o=CURRENT_FILES&o=CURRENT_ACTIONS&o=SUBMITTABLE");
      case "query" -> rest.get("/changes/?q=status:open+project:" + project + "&n=25&o=LABELS");
      case "review" -> rest.good("POST", path() + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
      case "submit" -> rest.good("POST", path() + "/submit", "{}");
      case "accounts" -> rest.get(ALL_ACCOUNTS);
      case "ls-remote" -> author.masterAdvertised();
      case "clone" -> cloned();
      default -> throw new IllegalArgumentException(journey);
    };
  }

  private String path() {
    return "/changes/" + project + "~" + change.number();
  }

  private Path cloned() throws Exception {
    Path clone = cloneFolder();
    new Author(clone, url, project).close();
    return clone;
  }

  private Path cloneFolder() {
    return folder.resolveSibling(folder.getFileName() + "-clone");
  }

  /** Removes the clone, so that another round can be made. */
  void clean() throws Exception {
    Commands.run(folder.getParent(), "rm", "-rf", cloneFolder().toString());
  }

  @Override
  public void close() {
    author.close();
  }
}

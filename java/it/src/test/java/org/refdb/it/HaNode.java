package org.refdb.it;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.concurrent.Callable;

/** A Gerrit with the real high-availability plugin. */
record HaNode(String name, GerritServer server, Rest rest) {
  private static final Duration SOON = Duration.ofSeconds(60);

  HaNode(String name, GerritServer server) {
    this(name, server, new Rest(server.url(), "admin", "secret"));
  }

  /** The plugin's settings. */
  void configure(Path shared, HaNode peer, String more) throws IOException {
    Files.writeString(
        server.site().resolve("etc/high-availability.config"),
        """
        [main]
        	sharedDirectory = %s
        [peerInfo]
        	strategy = static
        [peerInfo "static"]
        	url = %s
        [http]
        	user = admin
        	password = secret
        %s
        """
            .formatted(shared, peer.server.url(), more));
  }

  String master(String project) throws IOException {
    return rest.get("/projects/" + project + "/branches/master").getAsJsonObject().get("revision").getAsString();
  }

  long refreshed(String project) throws IOException {
    return rest.get("/projects/" + project + "/refdb~stat").getAsJsonObject().get("refreshed").getAsLong();
  }

  /** Pushes here, votes on {@code voter}, submits here. */
  void submit(String project, HaNode voter, Path clone, String text) throws Exception {
    try (Author author = new Author(clone, server.url(), project)) {
      Author.Change change = author.pushChange(text);
      String path = "/changes/" + project + "~" + change.number();
      awaiting("the forwarded index", () -> voter.rest.ask("GET", path, null).status() == 200);
      voter.rest.good("POST", path + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
      awaiting("the vote", () -> rest.ask("POST", path + "/submit", "{}").status() == 200);
    }
  }

  void verify(String project) throws IOException {
    JsonObject found = rest.good("POST", "/projects/" + project + "/refdb~verify", "{}").json().getAsJsonObject();
    require(found.get("clean").getAsBoolean(), found.toString());
  }

  static void awaiting(String what, Callable<Boolean> isThere) throws Exception {
    long deadline = System.nanoTime() + SOON.toNanos();
    while (!isThere.call()) {
      require(System.nanoTime() < deadline, what + " did not come within " + SOON.toSeconds() + " s");
      Thread.sleep(20);
    }
  }

  static void copy(Path from, Path to) throws IOException {
    Files.createDirectories(to.getParent());
    Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
  }

  static void require(boolean isSo, String message) {
    if (!isSo) {
      throw new AssertionError(message);
    }
  }
}

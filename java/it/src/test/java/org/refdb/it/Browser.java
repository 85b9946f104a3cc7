package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** A browser that keeps its first session's cookie, also when the server says that it is over. */
final class Browser {
  private static final String COOKIE = "GerritAccount=";

  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String url;
  private String cookie = "none=none";

  Browser(String url) {
    this.url = url;
  }

  int get(String path) throws IOException {
    HttpRequest request = HttpRequest.newBuilder(URI.create(url + path)).header("Cookie", cookie).build();
    HttpResponse<Void> response;
    try {
      response = client.send(request, HttpResponse.BodyHandlers.discarding());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    }
    for (String set : response.headers().allValues("Set-Cookie")) {
      if (set.startsWith(COOKIE) && cookie.startsWith("none")) {
        cookie = set.substring(0, set.indexOf(';'));
      }
    }
    return response.statusCode();
  }

  /** Logs in as the administrator. */
  Browser login() throws IOException {
    assertEquals(302, get("/login/?account_id=1000000"));
    assertTrue(isLoggedIn());
    return this;
  }

  void logout() throws IOException {
    assertEquals(302, get("/logout"));
  }

  /** What the cookie says, which is the key of the session. */
  String sessionKey() {
    return cookie.substring(COOKIE.length());
  }

  boolean isLoggedIn() throws IOException {
    return get("/accounts/self/detail") == 200;
  }
}

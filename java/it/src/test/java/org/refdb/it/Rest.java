package org.refdb.it;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;

/** Gerrit's REST API, as one user. */
final class Rest {
  private static final Duration TIMEOUT = Duration.ofMinutes(10);

  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final String base;
  private final String authorization;

  Rest(String url, String user, String password) {
    this.base = url + "/a";
    this.authorization =
        "Basic " + Base64.getEncoder().encodeToString((user + ":" + password).getBytes(StandardCharsets.UTF_8));
  }

  record Answer(int status, String body) {
    JsonElement json() {
      return JsonParser.parseString(body.substring(body.indexOf('\n') + 1));
    }
  }

  /** Fetches bytes. Fails if the server does not give them. */
  byte[] download(String path) throws IOException {
    HttpResponse<byte[]> response = send(request(path).GET(), HttpResponse.BodyHandlers.ofByteArray());
    if (response.statusCode() != 200) {
      throw new AssertionError("GET " + path + " gives " + response.statusCode());
    }
    return response.body();
  }

  /** Sends bytes; the answer may be a refusal. */
  Answer upload(String path, byte[] bytes) throws IOException {
    HttpRequest.Builder request = request(path).header("Content-Type", "application/octet-stream");
    return answer(request.POST(HttpRequest.BodyPublishers.ofByteArray(bytes)));
  }

  /** Asks; the answer may be a refusal. */
  Answer ask(String method, String path, String body) throws IOException {
    HttpRequest.Builder request = request(path);
    if (body == null) {
      request.method(method, HttpRequest.BodyPublishers.noBody());
    } else {
      request.header("Content-Type", body.startsWith("{") ? "application/json" : "text/plain");
      request.method(method, HttpRequest.BodyPublishers.ofString(body));
    }
    return answer(request);
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create(base + path)).header("Authorization", authorization).timeout(TIMEOUT);
  }

  private Answer answer(HttpRequest.Builder request) throws IOException {
    HttpResponse<String> response = send(request, HttpResponse.BodyHandlers.ofString());
    return new Answer(response.statusCode(), response.body());
  }

  private <T> HttpResponse<T> send(HttpRequest.Builder request, HttpResponse.BodyHandler<T> handler)
      throws IOException {
    try {
      return client.send(request.build(), handler);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    }
  }

  /** Asks. Fails unless the status of the answer is 2xx. */
  Answer good(String method, String path, String body) throws IOException {
    Answer answer = ask(method, path, body);
    if (answer.status() / 100 != 2) {
      throw new AssertionError(method + " " + path + " gives " + answer.status() + ": " + answer.body());
    }
    return answer;
  }

  JsonElement get(String path) throws IOException {
    return good("GET", path, null).json();
  }

  /** A name as part of a path. */
  static String id(String name) {
    return URLEncoder.encode(name, StandardCharsets.UTF_8);
  }
}

package org.refdb.it;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import org.refdb.gerrit.global.EtcdServer;

/** Three members of etcd, and what they have, asked without any of refdb's code. */
final class Cluster implements AutoCloseable {
  /** A quota of 16 MiB, which is soon full. */
  private static final String SMALL = "--quota-backend-bytes=" + (16 << 20);

  private static final String LARGE = "--quota-backend-bytes=" + (256 << 20);
  private static final Duration TIMEOUT = Duration.ofSeconds(2);
  private static final int TRIES = 60;

  private final List<EtcdServer> members;
  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(TIMEOUT).build();

  Cluster() throws IOException, InterruptedException {
    members = EtcdServer.startCluster(3, SMALL);
    // The members must not outlive a run that is stopped or ends early.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> members.forEach(EtcdServer::kill)));
  }

  List<EtcdServer> members() {
    return members;
  }

  /** Returns the current value of a key, empty for none. Asks the members in turn until one of them answers. */
  String value(String key) throws IOException, InterruptedException {
    String body = "{\"key\":\"" + base64(key) + "\"}";
    for (int i = 0; i < TRIES; i++) {
      JsonObject answer = ask(members.get(i % members.size()), "/v3/kv/range", body);
      if (answer != null) {
        if (!answer.has("kvs")) {
          return "";
        }
        String value = answer.getAsJsonArray("kvs").get(0).getAsJsonObject().get("value").getAsString();
        return new String(Base64.getDecoder().decode(value), StandardCharsets.UTF_8);
      }
      Thread.sleep(50);
    }
    throw new IOException("no member of etcd answers");
  }

  /** The answer; null if there is none, or an error. */
  private JsonObject ask(EtcdServer member, String path, String body) throws InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(member.url() + path)).timeout(TIMEOUT).POST(HttpRequest.BodyPublishers.ofString(body)).build();
    try {
      HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
      return response.statusCode() == 200 ? JsonParser.parseString(response.body()).getAsJsonObject() : null;
    } catch (IOException e) {
      return null;
    }
  }

  private static String base64(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }

  /** Puts values that nobody needs until there is no room for more. */
  void fill() throws InterruptedException {
    String value = base64("x".repeat(1_000_000));
    for (int i = 0; i < TRIES && !isFull(); i++) {
      ask(members.get(i % members.size()), "/v3/kv/put", "{\"key\":\"" + base64("fill/" + i) + "\",\"value\":\"" + value + "\"}");
    }
    if (!isFull()) {
      throw new AssertionError("etcd does not get full");
    }
  }

  private boolean isFull() throws InterruptedException {
    for (EtcdServer member : members) {
      JsonObject alarms = ask(member, "/v3/maintenance/alarm", "{\"action\":\"GET\"}");
      if (alarms != null) {
        return alarms.toString().contains("NOSPACE");
      }
    }
    return false;
  }

  /** As the guide says: each member in turn, then the alarm. */
  void raiseQuota() throws IOException, InterruptedException {
    for (EtcdServer member : members) {
      member.kill();
      member.options(LARGE);
      member.launch(); // it calls itself ill as long as there is the alarm
      for (int i = 0; i < TRIES && ask(member, "/v3/kv/range", "{\"key\":\"" + base64("fill/") + "\"}") == null; i++) {
        Thread.sleep(100);
      }
    }
    members.getFirst().ctl("alarm", "disarm");
  }

  @Override
  public void close() throws IOException {
    for (EtcdServer member : members) {
      member.close();
    }
  }
}

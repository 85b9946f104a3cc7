package org.refdb.gerrit.global.etcd;

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.RequestOptions;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;
import java.math.BigDecimal;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads from the HTTP metrics of a member what its API does not return: before version 3.6, the quota of its database.
 */
public final class EtcdMetrics {
  private static final Pattern QUOTA = Pattern.compile("(?m)^etcd_server_quota_backend_bytes (\\S+)$");

  private final Settings settings;

  public EtcdMetrics(Settings settings) {
    this.settings = settings;
  }

  /** The quota in bytes, or null if it is unknown, for example because the member serves its metrics elsewhere. */
  public Long quota(String endpoint) {
    Vertx vertx = Vertx.vertx();
    try {
      HttpClient client = vertx.createHttpClient(options());
      RequestOptions page =
          new RequestOptions()
              .setMethod(HttpMethod.GET)
              .setAbsoluteURI(endpoint.replaceAll("/$", "") + "/metrics");
      Future<Buffer> body = client.request(page).compose(request -> request.send()).compose(HttpClientResponse::body);
      String text =
          body.toCompletionStage()
              .toCompletableFuture()
              .get(settings.requestTimeout().toMillis(), TimeUnit.MILLISECONDS)
              .toString();
      Matcher found = QUOTA.matcher(text);
      return found.find() ? new BigDecimal(found.group(1)).longValue() : null;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException | TimeoutException | NumberFormatException e) {
      return null;
    } finally {
      vertx.close();
    }
  }

  private HttpClientOptions options() {
    HttpClientOptions options = new HttpClientOptions().setSsl(settings.usesTls());
    if (settings.caFile() != null) {
      options.setTrustOptions(new PemTrustOptions().addCertPath(settings.caFile().toString()));
    }
    if (settings.certFile() != null) {
      options.setKeyCertOptions(
          new PemKeyCertOptions()
              .addCertPath(settings.certFile().toString())
              .addKeyPath(settings.keyFile().toString()));
    }
    return options;
  }
}

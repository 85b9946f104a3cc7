package org.refdb.gerrit.global.etcd;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.ClientBuilder;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Response;
import io.etcd.jetcd.common.exception.ErrorCode;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.common.exception.EtcdExceptionFactory;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLException;
import org.refdb.gerrit.global.etcd.GlobalRefException.NoAnswer;
import org.refdb.gerrit.global.etcd.GlobalRefException.Refused;

/**
 * The client of etcd, which distinguishes errors after which a request is certainly not in flight any more from others.
 */
public final class Etcd implements AutoCloseable {
  /**
   * Errors after which a request is no longer in flight and was not carried out, except that a full etcd may report one
   * after carrying out the request. After any other error, the request may have been carried out, or may still be.
   */
  private static final Set<ErrorCode> ANSWERS =
      EnumSet.of(
          ErrorCode.INVALID_ARGUMENT,
          ErrorCode.NOT_FOUND,
          ErrorCode.PERMISSION_DENIED,
          ErrorCode.UNAUTHENTICATED,
          ErrorCode.RESOURCE_EXHAUSTED,
          ErrorCode.FAILED_PRECONDITION,
          ErrorCode.OUT_OF_RANGE,
          ErrorCode.UNIMPLEMENTED);

  private final Settings settings;
  private final Client client;

  /** The newest revision that a response contained, apart from those of watches. */
  private final AtomicLong revision = new AtomicLong();

  public Etcd(Settings settings) {
    this.settings = settings;
    client = clientOf(settings.endpoints());
  }

  /** Creates a client that sends requests to these members only. */
  public Client clientOf(List<String> endpoints) {
    ClientBuilder builder =
        Client.builder()
            .endpoints(endpoints.toArray(String[]::new))
            .keepaliveTime(settings.requestTimeout().multipliedBy(2))
            .keepaliveTimeout(settings.requestTimeout())
            .connectTimeout(settings.requestTimeout())
            .waitForReady(false)
            // As with etcd's own client: what a watch makes up for, or a page of long names, can exceed gRPC's 4 MiB.
            .maxInboundMessageSize(Integer.MAX_VALUE)
            // jetcd itself retries little. The callers decide about all other retries, because the mark of a
            // transaction has to be checked first.
            .retryMaxAttempts(2);
    if (settings.user() != null) {
      builder.user(Keys.bytes(settings.user())).password(Keys.bytes(settings.password()));
    }
    if (settings.usesTls()) {
      try {
        builder.sslContext(
            tls -> {
              if (settings.caFile() != null) {
                tls.trustManager(settings.caFile().toFile());
              }
              if (settings.certFile() != null) {
                tls.keyManager(settings.certFile().toFile(), settings.keyFile().toFile());
              }
            });
      } catch (SSLException | IllegalArgumentException e) {
        throw new IllegalArgumentException("refdb.global: cannot use " + certificates() + ": " + e.getMessage(), e);
      }
    }
    return builder.build();
  }

  private List<Path> certificates() {
    return java.util.stream.Stream.of(settings.caFile(), settings.certFile(), settings.keyFile())
        .filter(java.util.Objects::nonNull)
        .toList();
  }

  public Client client() {
    return client;
  }

  public Settings settings() {
    return settings;
  }

  public long revision() {
    return revision.get();
  }

  public static Cmp is(ByteSequence key, String value) {
    return new Cmp(key, Cmp.Op.EQUAL, CmpTarget.value(Keys.bytes(value)));
  }

  public static Cmp isAbsent(ByteSequence key) {
    return new Cmp(key, Cmp.Op.EQUAL, CmpTarget.createRevision(0));
  }

  public static Cmp isCreatedAt(ByteSequence key, long revision) {
    return new Cmp(key, Cmp.Op.EQUAL, CmpTarget.createRevision(revision));
  }

  public static Cmp isChangedAt(ByteSequence key, long revision) {
    return new Cmp(key, Cmp.Op.EQUAL, CmpTarget.modRevision(revision));
  }

  public static Op get(ByteSequence key) {
    return Op.get(key, GetOption.DEFAULT);
  }

  public static Optional<KeyValue> first(GetResponse response) {
    return response.getKvs().stream().findFirst();
  }

  public static Optional<String> text(GetResponse response) {
    return first(response).map(Etcd::text);
  }

  public static String text(KeyValue entry) {
    return entry.getValue().toString(java.nio.charset.StandardCharsets.UTF_8);
  }

  public TxnResponse commit(
      List<Cmp> compares, List<Op> then, List<Op> otherwise, Deadline deadline)
      throws GlobalRefException {
    return await(
        client
            .getKVClient()
            .txn()
            .If(compares.toArray(Cmp[]::new))
            .Then(then.toArray(Op[]::new))
            .Else(otherwise.toArray(Op[]::new))
            .commit(),
        deadline);
  }

  /** Reads a key or range; unlike {@link #read}, this does not ask again if no response arrives. */
  public GetResponse ask(ByteSequence key, GetOption option, Deadline deadline) throws GlobalRefException {
    return await(client.getKVClient().get(key, option), deadline);
  }

  /**
   * Reads a key or range, and retries until the deadline if no response arrives. The response is linearizable: no older
   * than the call.
   */
  public GetResponse read(ByteSequence key, GetOption option, Deadline deadline) throws GlobalRefException {
    while (true) {
      try {
        return ask(key, option, deadline);
      } catch (NoAnswer e) {
        if (!deadline.pause()) {
          throw e;
        }
      }
    }
  }

  /** Commits an idempotent transaction, and retries until the deadline if no response arrives. */
  public TxnResponse commitAgain(
      List<Cmp> compares, List<Op> then, List<Op> otherwise, Deadline deadline)
      throws GlobalRefException {
    while (true) {
      try {
        return commit(compares, then, otherwise, deadline);
      } catch (NoAnswer e) {
        if (!deadline.pause()) {
          throw e;
        }
      }
    }
  }

  public <T> T await(CompletableFuture<T> answer, Deadline deadline) throws GlobalRefException {
    long millis = Math.max(1, Math.min(settings.requestTimeout().toMillis(), deadline.millisLeft()));
    try {
      T told = answer.get(millis, TimeUnit.MILLISECONDS);
      if (told instanceof Response response && response.getHeader() != null) {
        revision.accumulateAndGet(response.getHeader().getRevision(), Math::max);
      }
      return told;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new NoAnswer("interrupted while etcd was asked", e);
    } catch (TimeoutException | CancellationException e) {
      throw new NoAnswer(
          "etcd at "
              + String.join(", ", settings.endpoints())
              + " did not answer in "
              + millis
              + " ms",
          e);
    } catch (ExecutionException e) {
      throw told(e);
    }
  }

  private GlobalRefException told(ExecutionException failure) {
    EtcdException error = EtcdExceptionFactory.toEtcdException(failure.getCause());
    String where = "etcd at " + String.join(", ", settings.endpoints());
    if (!ANSWERS.contains(error.getErrorCode())) {
      return new NoAnswer(where + " cannot be asked: " + error.getMessage(), error);
    }
    String message = error.getMessage() == null ? error.getErrorCode().name() : error.getMessage();
    return new Refused(
        where + " refused: " + message + advice(error.getErrorCode(), message),
        error,
        error.getErrorCode() == ErrorCode.NOT_FOUND);
  }

  /** Returns advice to the administrator that is appended to an error. */
  private String advice(ErrorCode code, String message) {
    if (message.contains("space exceeded")) {
      return ". Its quota is full: compact and defragment it or raise --quota-backend-bytes, then"
          + " `etcdctl alarm disarm`";
    }
    if (message.contains("too many operations")) {
      return ". Start each member with --max-txn-ops="
          + settings.txnOps()
          + " or more: refdb.global.maxTxnOps counts on that";
    }
    if (message.contains("too large")) {
      return ". Start each member with a larger --max-request-bytes, or lower refdb.global.maxTxnOps";
    }
    return switch (code) {
      case UNAUTHENTICATED ->
          ". It does not accept refdb.global.user with the password of secure.config";
      case PERMISSION_DENIED ->
          ". The role of its user needs to read and write all keys that begin with "
              + settings.prefix();
      default -> "";
    };
  }

  @Override
  public void close() {
    client.close();
  }
}

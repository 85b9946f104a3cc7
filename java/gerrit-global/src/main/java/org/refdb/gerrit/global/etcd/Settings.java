package org.refdb.gerrit.global.etcd;

import com.google.gerrit.server.config.ConfigUtil;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;

/**
 * The section {@code [refdb "global"]} of gerrit.config; the password is read from secure.config.
 *
 * @param endpoints addresses of etcd's members: {@code etcd}
 * @param caFile certificate of the authority that signs the members' certificates, or null for Java's default:
 *     {@code caFile}
 * @param certFile this node's certificate, or null: {@code certFile}
 * @param keyFile key of that certificate: {@code keyFile}
 * @param user user name in etcd, or null; {@code password} is set if and only if this is
 * @param prefix prefix of every key: {@code prefix}
 * @param requestTimeout how long to wait for one response before it counts as lost: {@code requestTimeout}
 * @param timeout how long an operation is retried before it fails: {@code timeout}
 * @param lockTimeout how long to wait for a lock: {@code lockTimeout}
 * @param lease how long a node that is killed or cut off keeps its locks: {@code lease}
 * @param underLocks how long native mode may wait for etcd while refs are locked, besides the one request of at most
 *     20 s that gives up a refused staged batch: {@code underLocks}
 * @param txnOps operations that etcd accepts in one transaction, its --max-txn-ops: {@code maxTxnOps}
 * @param requestBytes bytes that etcd accepts in one request, its --max-request-bytes: {@code maxRequestBytes}
 * @param slots how many updates and lock requests of a node may be in flight at once: {@code slots}
 */
public record Settings(
    List<String> endpoints,
    Path caFile,
    Path certFile,
    Path keyFile,
    String user,
    String password,
    String prefix,
    Duration requestTimeout,
    Duration timeout,
    Duration lockTimeout,
    Duration lease,
    Duration underLocks,
    int txnOps,
    long requestBytes,
    int slots) {
  static final String SECTION = "refdb";
  static final String SUBSECTION = "global";
  private static final int SLOTS_DEFAULT = 32;

  /** etcd's default. */
  private static final int TXN_OPS_DEFAULT = 128;

  /** Also etcd's default: 1.5 MiB. */
  private static final long REQUEST_BYTES_DEFAULT = 3 << 19;

  /**
   * Upper limit of {@code underLocks}: after a minute the engine treats an update as undecided, and the requests of an
   * update must end well before.
   */
  private static final Duration UNDER_LOCKS_MAX = Duration.ofSeconds(30);

  /**
   * Upper limit of {@code slots}: one transaction claims all marks of a node, and etcd by default accepts 128
   * operations in one.
   */
  private static final int SLOTS_MAX = 100;

  public static Settings of(Config config, Path site) {
    String addresses = config.getString(SECTION, SUBSECTION, "etcd");
    List<String> endpoints =
        addresses == null
            ? List.of()
            : Arrays.stream(addresses.split("[,\\s]+")).filter(one -> !one.isEmpty()).toList();
    if (endpoints.isEmpty()) {
      throw new IllegalArgumentException(
          "refdb.global.etcd is not set in gerrit.config: it names the addresses of etcd");
    }
    int slots = config.getInt(SECTION, SUBSECTION, "slots", SLOTS_DEFAULT);
    if (slots < 1 || slots > SLOTS_MAX) {
      throw new IllegalArgumentException("refdb.global.slots is " + slots + ": it must be 1 to " + SLOTS_MAX);
    }
    String prefix = config.getString(SECTION, SUBSECTION, "prefix");
    Settings settings =
        new Settings(
            endpoints,
            file(config, site, "caFile"),
            file(config, site, "certFile"),
            file(config, site, "keyFile"),
            config.getString(SECTION, SUBSECTION, "user"),
            config.getString(SECTION, SUBSECTION, "password"),
            prefix == null ? "refdb/" : prefix,
            time(config, "requestTimeout", 2000),
            time(config, "timeout", 10_000),
            time(config, "lockTimeout", 10_000),
            time(config, "lease", 15_000),
            time(config, "underLocks", 3000),
            config.getInt(SECTION, SUBSECTION, "maxTxnOps", TXN_OPS_DEFAULT),
            config.getLong(SECTION, SUBSECTION, "maxRequestBytes", REQUEST_BYTES_DEFAULT),
            slots);
    settings.check();
    return settings;
  }

  private void check() {
    for (String endpoint : endpoints) {
      if (!endpoint.matches("https?://[^/]+:\\d+/?")) {
        throw new IllegalArgumentException(
            "refdb.global.etcd has " + endpoint + ": write SCHEME://HOST:PORT with http or https, several with commas");
      }
    }
    if (endpoints.stream().map(one -> one.startsWith("https")).distinct().count() > 1) {
      throw new IllegalArgumentException("refdb.global.etcd has both http and https: all of them must be of one kind");
    }
    if ((certFile == null) != (keyFile == null)) {
      throw new IllegalArgumentException("refdb.global has one of certFile and keyFile: it needs both, or none");
    }
    if ((user == null) != (password == null)) {
      throw new IllegalArgumentException(
          "refdb.global has only one of user and password: set the user in gerrit.config and the password in"
              + " secure.config");
    }
    if (lease.toSeconds() < 2) {
      throw new IllegalArgumentException("refdb.global.lease is " + lease + ": it must be at least 2s");
    }
    if (txnOps < TXN_OPS_DEFAULT) {
      throw new IllegalArgumentException(
          "refdb.global.maxTxnOps is " + txnOps + ": it must be at least " + TXN_OPS_DEFAULT);
    }
    if (requestBytes < REQUEST_BYTES_DEFAULT) {
      throw new IllegalArgumentException(
          "refdb.global.maxRequestBytes is " + requestBytes + ": it must be at least " + REQUEST_BYTES_DEFAULT);
    }
    if (underLocks.isZero() || underLocks.compareTo(UNDER_LOCKS_MAX) > 0) {
      throw new IllegalArgumentException(
          "refdb.global.underLocks must be more than 0, and at most "
              + UNDER_LOCKS_MAX.toSeconds()
              + "s");
    }
    if (requestTimeout.isZero() || timeout.compareTo(requestTimeout) < 0) {
      throw new IllegalArgumentException("refdb.global.timeout must be at least requestTimeout, which must not be 0");
    }
  }

  boolean usesTls() {
    return endpoints.getFirst().startsWith("https");
  }

  private static Path file(Config config, Path site, String key) {
    String name = config.getString(SECTION, SUBSECTION, key);
    return name == null ? null : site.resolve(name);
  }

  private static Duration time(Config config, String key, long millis) {
    return Duration.ofMillis(ConfigUtil.getTimeUnit(config, SECTION, SUBSECTION, key, millis, TimeUnit.MILLISECONDS));
  }
}

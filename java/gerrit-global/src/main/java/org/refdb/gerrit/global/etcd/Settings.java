package org.refdb.gerrit.global.etcd;

import com.google.gerrit.server.config.ConfigUtil;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;

/**
 * The section {@code [refdb "global"]} of gerrit.config; the password is in secure.config.
 *
 * @param endpoints addresses of etcd's members: {@code etcd}
 * @param caFile who signs their certificates, or null for Java's own list: {@code caFile}
 * @param certFile this node's certificate, or null: {@code certFile}
 * @param keyFile its key: {@code keyFile}
 * @param user and {@code password}, or null
 * @param prefix before every key: {@code prefix}
 * @param requestTimeout after which an answer counts as lost: {@code requestTimeout}
 * @param timeout after which an operation gives up: {@code timeout}
 * @param lockTimeout how long a lock is waited for: {@code lockTimeout}
 * @param lease how long a stopped node keeps its locks: {@code lease}
 * @param underLocks how long native mode asks while refs are locked: {@code underLocks}
 * @param txnOps what etcd takes in one transaction, its --max-txn-ops: {@code maxTxnOps}
 * @param requestBytes what etcd takes in one request, its --max-request-bytes: {@code maxRequestBytes}
 * @param slots how many updates a node has under way at once: {@code slots}
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

  /** etcd's own default. */
  private static final int TXN_OPS_DEFAULT = 128;

  /** So is this: 1.5 MiB. */
  private static final long REQUEST_BYTES_DEFAULT = 3 << 19;

  /** The engine waits for a minute until an update counts as not decided. That is more than its requests take. */
  private static final Duration UNDER_LOCKS_MAX = Duration.ofSeconds(30);

  /** A transaction claims all marks of a node, and etcd allows 128 operations in one. */
  private static final int SLOTS_MAX = 100;

  public static Settings of(Config config, Path site) {
    String endpoints = config.getString(SECTION, SUBSECTION, "etcd");
    if (endpoints == null || endpoints.isBlank()) {
      throw new IllegalArgumentException("refdb.global.etcd is not set in gerrit.config: it names the addresses of etcd");
    }
    int slots = config.getInt(SECTION, SUBSECTION, "slots", SLOTS_DEFAULT);
    if (slots < 1 || slots > SLOTS_MAX) {
      throw new IllegalArgumentException("refdb.global.slots is " + slots + ": it must be 1 to " + SLOTS_MAX);
    }
    String prefix = config.getString(SECTION, SUBSECTION, "prefix");
    Settings settings =
        new Settings(
            Arrays.stream(endpoints.split("[,\\s]+")).filter(one -> !one.isEmpty()).toList(),
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
          "refdb.global has a user or a password only: the user belongs in gerrit.config, the password in secure.config");
    }
    if (lease.toSeconds() < 2) {
      throw new IllegalArgumentException("refdb.global.lease is " + lease + ": it must be at least 2s");
    }
    if (txnOps < TXN_OPS_DEFAULT) {
      throw new IllegalArgumentException("refdb.global.maxTxnOps is " + txnOps + ": it must be at least " + TXN_OPS_DEFAULT);
    }
    if (requestBytes < REQUEST_BYTES_DEFAULT) {
      throw new IllegalArgumentException(
          "refdb.global.maxRequestBytes is " + requestBytes + ": it must be at least " + REQUEST_BYTES_DEFAULT);
    }
    if (underLocks.isZero() || underLocks.compareTo(UNDER_LOCKS_MAX) > 0) {
      throw new IllegalArgumentException("refdb.global.underLocks must be more than 0, and at most " + UNDER_LOCKS_MAX.toSeconds() + "s");
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

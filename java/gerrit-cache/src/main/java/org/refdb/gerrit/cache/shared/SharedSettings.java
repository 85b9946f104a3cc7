package org.refdb.gerrit.cache.shared;

import com.google.gerrit.server.config.ConfigUtil;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.refdb.gerrit.cache.store.EncryptionKeys;

/**
 * The settings of the shared cache. Their names begin with {@code cache.refdbShared}.
 *
 * @param address the server that stores the shared cache
 * @param user the user to log in as; null for the server's default user
 * @param password the password; null for none
 * @param keys the keys with which values are encrypted, the one in use first; empty for none
 * @param namespace what tells the entries of this site from those of others on the same server
 * @param deadline how long a request waits for an answer at most; one for 16 keys or more waits longer
 * @param budget how long a thread waits for answers within any 100 ms at most
 * @param hasLeases whether nodes wait for a value that another one computes
 * @param ttl how long the server keeps an entry at most
 * @param valueBytesMax the size in bytes of the largest entry that is shared: a key, its value, and 45 bytes
 * @param queueEntriesMax the most values and deletions that wait to be sent
 * @param queueBytesMax the most bytes that wait to be sent
 * @param trustStore the certificates that TLS trusts; null for those of the Java runtime
 * @param trustStorePassword its password; null for none
 */
record SharedSettings(
    ServerAddress address,
    String user,
    String password,
    List<byte[]> keys,
    String namespace,
    Duration deadline,
    Duration budget,
    boolean hasLeases,
    Duration ttl,
    int valueBytesMax,
    int queueEntriesMax,
    long queueBytesMax,
    Path trustStore,
    String trustStorePassword) {

  private static final String SECTION = "cache";
  private static final String PREFIX = "refdbShared";
  private static final int VALUE_BYTES_LIMIT = 64 << 20;

  /**
   * Reads the settings. Returns null if the site has no shared cache.
   *
   * @param site the folder of the site, in which the trust store is looked for
   * @throws IllegalArgumentException if a setting is wrong; the message quotes no secret
   */
  static SharedSettings of(Config config, Path site) {
    String address = config.getString(SECTION, null, PREFIX);
    if (address == null || address.isBlank()) {
      return null;
    }
    String trustStore = text(config, "TrustStore");
    return new SharedSettings(
        ServerAddress.of(address),
        text(config, "User"),
        text(config, "Password"),
        keys(config),
        namespace(config),
        Duration.ofMillis(millis(config, "Deadline", Duration.ofMillis(2))),
        Duration.ofMillis(millis(config, "Budget", Duration.ofMillis(20))),
        config.getBoolean(SECTION, null, PREFIX + "Lease", false),
        Duration.ofMillis(millis(config, "Ttl", Duration.ofDays(30))),
        (int) number(config, "MaxValue", 1 << 20, VALUE_BYTES_LIMIT),
        (int) number(config, "QueueEntries", 10_000, Integer.MAX_VALUE),
        number(config, "QueueBytes", 64 << 20, Long.MAX_VALUE),
        trustStore == null ? null : site.resolve(trustStore),
        text(config, "TrustStorePassword"));
  }

  private static String text(Config config, String name) {
    return config.getString(SECTION, null, PREFIX + name);
  }

  private static long number(Config config, String name, long otherwise, long max) {
    long value = config.getLong(SECTION, null, PREFIX + name, otherwise);
    if (value < 1 || value > max) {
      throw new IllegalArgumentException("cache." + PREFIX + name + " must be from 1 to " + max);
    }
    return value;
  }

  private static long millis(Config config, String name, Duration otherwise) {
    long value =
        ConfigUtil.getTimeUnit(config, SECTION, null, PREFIX + name, otherwise.toMillis(), TimeUnit.MILLISECONDS);
    if (value < 1) {
      throw new IllegalArgumentException("cache." + PREFIX + name + " must be above 0");
    }
    return value;
  }

  /** Returns the namespace. It can be set, because a staging copy of a site has the same server id. */
  private static String namespace(Config config) {
    String given = text(config, "Namespace");
    String namespace = given != null ? given : config.getString("gerrit", null, "serverId");
    if (namespace == null || !namespace.matches("[A-Za-z0-9._-]{1,64}")) {
      throw new IllegalArgumentException(
          "cache." + PREFIX + "Namespace (default: gerrit.serverId) must be 1 to 64 of A-Z a-z 0-9 . _ and -");
    }
    return namespace;
  }

  private static List<byte[]> keys(Config config) {
    String current = text(config, "Key");
    String[] old = config.getStringList(SECTION, null, PREFIX + "OldKey");
    if (current == null) {
      if (old.length > 0) {
        throw new IllegalArgumentException("cache." + PREFIX + "OldKey is set without cache." + PREFIX + "Key");
      }
      return List.of();
    }
    List<byte[]> keys = new ArrayList<>();
    keys.add(EncryptionKeys.decode("cache." + PREFIX + "Key", current));
    for (String key : old) {
      keys.add(EncryptionKeys.decode("cache." + PREFIX + "OldKey", key));
    }
    return List.copyOf(keys);
  }

  boolean isEncrypted() {
    return !keys.isEmpty();
  }

  /** Returns a text without secrets. */
  @Override
  public String toString() {
    return "shared cache " + namespace + " on " + address.hosts();
  }
}

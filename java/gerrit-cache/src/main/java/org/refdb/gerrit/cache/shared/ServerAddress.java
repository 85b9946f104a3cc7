package org.refdb.gerrit.cache.shared;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import redis.clients.jedis.HostAndPort;

/**
 * Where the shared cache is: {@code cache.refdbShared}.
 *
 * @param kind how the server of a key is found
 * @param tls whether connections are encrypted
 * @param hosts the servers, or the sentinels, or some nodes of the cluster, in the order in which they are tried
 * @param master the name by which sentinels know the server; null if the hosts are not sentinels
 */
record ServerAddress(Kind kind, boolean tls, List<HostAndPort> hosts, String master) {
  /** How the server of a key is found. */
  enum Kind {
    /** Each host has all keys, and the next is used when one fails. */
    SERVER,
    /** The hosts are sentinels, which name the server. */
    SENTINEL,
    /** Each key has a slot, and each slot a node. */
    CLUSTER
  }

  private static final String FORMS =
      "cache.refdbShared must be redis://HOST:PORT[,HOST:PORT...], redis-sentinel://HOST:PORT[,...]/MASTER or "
          + "redis-cluster://HOST:PORT[,...], with rediss instead of redis for TLS";

  /**
   * Parses an address. It has no room for a user and a password, because they belong in secure.config.
   *
   * @throws IllegalArgumentException if the text has none of the forms; the message does not quote it
   */
  static ServerAddress of(String text) {
    String[] parts = text.strip().split("://", 2);
    String scheme = parts[0].toLowerCase(Locale.ROOT);
    boolean tls = scheme.startsWith("rediss");
    Kind kind =
        switch (scheme.replaceFirst("^rediss?", "")) {
          case "" -> Kind.SERVER;
          case "-sentinel" -> Kind.SENTINEL;
          case "-cluster" -> Kind.CLUSTER;
          default -> throw new IllegalArgumentException(FORMS);
        };
    if (parts.length < 2 || !scheme.startsWith("redis") || parts[1].contains("@")) {
      throw new IllegalArgumentException(FORMS);
    }
    String[] rest = parts[1].split("/", 2);
    String master = rest.length == 2 && !rest[1].isEmpty() ? rest[1] : null;
    if ((kind == Kind.SENTINEL) != (master != null)) {
      throw new IllegalArgumentException(FORMS);
    }
    return new ServerAddress(kind, tls, hosts(rest[0]), master);
  }

  private static List<HostAndPort> hosts(String text) {
    List<HostAndPort> hosts = new ArrayList<>();
    for (String host : text.split(",")) {
      int colon = host.lastIndexOf(':');
      try {
        int port = Integer.parseInt(host.substring(colon + 1).strip());
        String name = host.substring(0, Math.max(colon, 0)).strip().replaceAll("^\\[|]$", "");
        if (name.isEmpty() || port < 1 || port > 65535) {
          throw new IllegalArgumentException(FORMS);
        }
        hosts.add(new HostAndPort(name, port));
      } catch (NumberFormatException e) {
        throw new IllegalArgumentException(FORMS);
      }
    }
    return List.copyOf(hosts);
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.flogger.FluentLogger;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.util.JedisClusterCRC16;

/** Leads each key to the primary of its slot in a cluster. */
final class ClusterRoute implements Route {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final long ASK_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final Connector connector;
  private final List<HostAndPort> seeds;
  private volatile HostAndPort[] nodes = new HostAndPort[0];
  private volatile boolean isDoubtful = true;
  private int next = -1;
  private long askedNanos;

  ClusterRoute(Connector connector, List<HostAndPort> seeds) {
    this.connector = connector;
    this.seeds = seeds;
  }

  @Override
  public HostAndPort serverOf(byte[] key) {
    HostAndPort[] known = nodes;
    if (known.length == 0) {
      return null;
    }
    return known[key == null ? 0 : JedisClusterCRC16.getSlot(key)];
  }

  @Override
  public Set<HostAndPort> servers() {
    Set<HostAndPort> servers = new LinkedHashSet<>();
    for (HostAndPort node : nodes) {
      if (node != null) {
        servers.add(node);
      }
    }
    return servers;
  }

  /**
   * Asks one node for all slots, every ten seconds and after a failure. The next call asks the next node if this one
   * does not answer or knows no slots, or if a server that it named fails.
   */
  @Override
  public void refresh() {
    if (!isDoubtful && System.nanoTime() - askedNanos < ASK_NANOS) {
      return;
    }
    askedNanos = System.nanoTime();
    if (isDoubtful) {
      next++;
    }
    List<HostAndPort> asked = new ArrayList<>(servers());
    asked.addAll(seeds);
    HostAndPort node = asked.get(next % asked.size());
    try (Connector.Link link = connector.connect(node)) {
      link.connection().sendCommand(Protocol.Command.CLUSTER, "SLOTS");
      List<?> ranges = (List<?>) link.connection().getOne();
      isDoubtful = ranges.isEmpty();
      if (!isDoubtful) {
        nodes = slots(ranges, node);
      }
    } catch (RuntimeException e) {
      logger.atFine().withCause(e).log("Node %s does not tell the slots of the cluster", node);
      isDoubtful = true;
    }
  }

  /** Parses ranges of slots: first, last, primary (host, port, ...), replicas. */
  private static HostAndPort[] slots(List<?> ranges, HostAndPort asked) {
    HostAndPort[] nodes = new HostAndPort[Protocol.CLUSTER_HASHSLOTS];
    for (Object each : ranges) {
      List<?> range = (List<?>) each;
      int last = Math.min(((Long) range.get(1)).intValue(), nodes.length - 1);
      List<?> primary = (List<?>) range.get(2);
      String host = primary.get(0) == null ? "" : new String((byte[]) primary.get(0), UTF_8);
      // A node that does not know its own name means the one by which it was asked.
      HostAndPort node = new HostAndPort(host.isEmpty() ? asked.getHost() : host, ((Long) primary.get(1)).intValue());
      for (int slot = Math.max(((Long) range.get(0)).intValue(), 0); slot <= last; slot++) {
        nodes[slot] = node;
      }
    }
    return nodes;
  }

  @Override
  public void failed(HostAndPort server) {
    isDoubtful = true;
  }
}

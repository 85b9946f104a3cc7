package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.flogger.FluentLogger;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;

/** Leads all keys to the server that the sentinels name. */
final class SentinelRoute implements Route {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final long ASK_NANOS = TimeUnit.SECONDS.toNanos(2);

  private final Connector connector;
  private final List<HostAndPort> sentinels;
  private final String name;
  private volatile HostAndPort master;
  private volatile boolean isDoubtful = true;
  private int next;
  private long askedNanos;

  SentinelRoute(Connector connector, List<HostAndPort> sentinels, String name) {
    this.connector = connector;
    this.sentinels = sentinels;
    this.name = name;
  }

  @Override
  public HostAndPort serverOf(byte[] key) {
    return master;
  }

  @Override
  public Set<HostAndPort> servers() {
    HostAndPort known = master;
    return known == null ? Set.of() : Set.of(known);
  }

  /**
   * Asks one sentinel, the one that answered last, if a server failed or the last question is 2 s old. If that sentinel
   * does not answer or does not know the name, the next sentinel is asked only next time, so that the waits for silent
   * sentinels do not add up. Without a failure sentinels are asked too, because a server that was replaced behind a cut
   * in the network goes on answering.
   */
  @Override
  public void refresh() {
    if (!isDoubtful && System.nanoTime() - askedNanos < ASK_NANOS) {
      return;
    }
    askedNanos = System.nanoTime();
    try (Connector.Link link = connector.connectToSentinel(sentinels.get(next))) {
      link.connection().sendCommand(Protocol.Command.SENTINEL, "GET-MASTER-ADDR-BY-NAME", name);
      if (link.connection().getOne() instanceof List<?> parts && parts.size() == 2) {
        master = new HostAndPort(text(parts.get(0)), Integer.parseInt(text(parts.get(1))));
        isDoubtful = false;
        return;
      }
    } catch (RuntimeException e) {
      logger.atFine().withCause(e).log("Sentinel %s does not answer", sentinels.get(next));
    }
    next = (next + 1) % sentinels.size();
  }

  private static String text(Object part) {
    return new String((byte[]) part, UTF_8);
  }

  @Override
  public void failed(HostAndPort server) {
    isDoubtful = true;
  }
}

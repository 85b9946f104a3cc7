package org.refdb.gerrit.cache.shared;

import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.HostAndPort;

/** Leads all keys to one of several addresses of the same data: to the first, and to the next each time one fails. */
final class FixedRoute implements Route {
  private final List<HostAndPort> hosts;
  private final AtomicInteger current = new AtomicInteger();

  FixedRoute(List<HostAndPort> hosts) {
    this.hosts = hosts;
  }

  @Override
  public HostAndPort serverOf(byte[] key) {
    return hosts.get(current.get());
  }

  @Override
  public Set<HostAndPort> servers() {
    return Set.of(serverOf(null));
  }

  @Override
  public void refresh() {}

  @Override
  public void failed(HostAndPort server) {
    int was = current.get();
    if (hosts.get(was).equals(server)) {
      current.compareAndSet(was, (was + 1) % hosts.size());
    }
  }
}

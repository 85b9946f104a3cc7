package org.refdb.gerrit.cache.shared;

import java.util.Set;
import redis.clients.jedis.HostAndPort;

/** Knows which server has a key. Only {@link #refresh} blocks. */
interface Route {
  /** Returns the server of a key as far as known, else null. With a null key, any server. */
  HostAndPort serverOf(byte[] key);

  /** Returns all servers to which keys lead, as far as known. */
  Set<HostAndPort> servers();

  /** Finds out anew where keys are, if that may have changed. A failure leaves what was known. */
  void refresh();

  /** Notes that a server cannot be reached, or says that it is not the one for a key. */
  void failed(HostAndPort server);
}

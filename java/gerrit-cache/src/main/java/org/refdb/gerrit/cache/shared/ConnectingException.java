package org.refdb.gerrit.cache.shared;

import redis.clients.jedis.exceptions.JedisConnectionException;

/** A call could not be sent, because a server that became known just now is being connected to. Others may be well. */
final class ConnectingException extends JedisConnectionException {
  private static final long serialVersionUID = 1L;

  ConnectingException() {
    super("the connection is being made");
  }
}

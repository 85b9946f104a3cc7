package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;

/**
 * The state of the shared cache, for an administrator.
 *
 * @param where its namespace and addresses
 * @param inUse whether requests ask it now
 * @param encrypted whether its values are encrypted and authenticated
 * @param evictionPolicy the server's {@code maxmemory-policy}; "unknown" if it does not tell
 * @param persistence how the server writes to disk: "aof" if it appends each change, else "rdb" or "none so far",
 *     depending on whether it has saved since it was started; or "unknown"
 * @param opened how many times since the start this node stopped asking it for a while, because it failed or was late
 * @param waitingEntries values and deletions that wait to be sent to it
 * @param waitingBytes their bytes
 */
public record SharedStatus(
    String where,
    boolean inUse,
    boolean encrypted,
    String evictionPolicy,
    String persistence,
    long opened,
    int waitingEntries,
    long waitingBytes) {
  private static final String UNKNOWN = "unknown";
  private static final long ANSWER_NANOS_MAX = TimeUnit.SECONDS.toNanos(1);

  static SharedStatus of(SharedCaches caches) {
    SharedCaches.Waiting waiting = caches.waiting();
    String persistence = info(caches.client(), "persistence");
    return new SharedStatus(
        caches.settings().toString(),
        caches.isInUse(),
        caches.settings().isEncrypted(),
        field(info(caches.client(), "memory"), "maxmemory_policy"),
        persistence(field(persistence, "aof_enabled"), field(persistence, "rdb_saves")),
        caches.breaker().opened(),
        waiting.entries(),
        waiting.bytes());
  }

  /** Returns a section of the server's INFO; empty if it does not answer or refuses it, as hosted servers do. */
  private static String info(Client client, String section) {
    CommandArguments info = new CommandArguments(Protocol.Command.INFO).add(section.getBytes(UTF_8));
    try (Call call = client.send(info, null)) {
      return call.await(ANSWER_NANOS_MAX) instanceof byte[] text ? new String(text, UTF_8) : "";
    } catch (TimeoutException | RuntimeException e) {
      return "";
    }
  }

  private static String field(String info, String name) {
    return info.lines()
        .filter(line -> line.startsWith(name + ":"))
        .map(line -> line.substring(name.length() + 1).strip())
        .findFirst()
        .orElse(UNKNOWN);
  }

  static String persistence(String aof, String saves) {
    if (aof.equals(UNKNOWN)) {
      return UNKNOWN;
    }
    if (aof.equals("1")) {
      return "aof";
    }
    return saves.equals(UNKNOWN) ? UNKNOWN : saves.equals("0") ? "none so far" : "rdb";
  }

  /** Returns the state as a few lines of text. */
  public String text() {
    return """
        %s: %s, %s
          maxmemory-policy %s, persistence %s; kept from it %d times; %d values of %d bytes wait"""
        .formatted(
            where,
            inUse ? "in use" : "NOT IN USE, see error_log",
            encrypted ? "encrypted" : "NOT ENCRYPTED: whoever reaches the server can read and forge its values",
            evictionPolicy,
            persistence,
            opened,
            waitingEntries,
            waitingBytes);
  }
}

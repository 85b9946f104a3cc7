package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a server stores under the names of requests and reports is ignored unless it is a recent request or report. */
class PeersTest {
  private static final byte[] REQUEST = "refdb:site:peer:self:request".getBytes(UTF_8);
  private static final byte[] REPORT = "refdb:site:peer:self:report".getBytes(UTF_8);

  private final EntryFormat format = new EntryFormat(List.of());

  private void write(RedisServer redis, byte[] name, String text, long createdMillis) {
    redis.call("SET", name, format.encode(name, new byte[0], text.getBytes(UTF_8), createdMillis));
  }

  @Test
  void whatIsNoRequestOrReportIsIgnored(@TempDir Path folder) throws Exception {
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("gerrit", null, "instanceId", "self");
    try (RedisServer redis = new RedisServer(folder)) {
      config.setString("cache", null, "refdbShared", redis.address());
      try (SharedCaches caches = SharedCaches.of(config, folder)) {
        Peers peers = caches.peers();
        long now = System.currentTimeMillis();
        while (!caches.isInUse()) {
          Thread.sleep(10);
        }
        assertNull(peers.request());
        for (String text :
            List.of("", "id", "id\n5", "\n5\n", "id\n0\n", "id\n-1\n", "id\n9999999\n", "id\n5\nc\nd", "id\n٥\n")) {
          write(redis, REQUEST, text, now);
          assertNull(peers.request(), text);
        }
        write(redis, REQUEST, "id\n5\nfleet", now - 600_000);
        assertNull(peers.request(), "somebody has kept it");
        redis.call("SET", REQUEST, "id\n5\nfleet".getBytes(UTF_8));
        assertNull(peers.request());
        write(redis, REQUEST, "id\n5\nfleet", now);
        Peers.Request request = peers.request();
        assertEquals(new Peers.Request("id", 5, "fleet"), request);
        for (String text : List.of("", "id\nDONE", "id\nEND\n1", "id\nDONE\n-1", "other\nDONE\n1")) {
          write(redis, REPORT, text, now);
          assertNull(peers.reportOf("self", request), text);
        }
        write(redis, REPORT, "id\nDONE\n7", now);
        assertNotNull(peers.reportOf("self", request));
      }
    }
  }
}

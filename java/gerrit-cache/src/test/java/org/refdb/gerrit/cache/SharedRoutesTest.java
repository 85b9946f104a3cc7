package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.shared.Counts;
import org.refdb.gerrit.cache.shared.RedisServer;
import org.refdb.gerrit.cache.shared.SharedStatus;
import redis.clients.jedis.exceptions.JedisDataException;

/** The ways to a server: several addresses, sentinels, a cluster, and TLS. */
class SharedRoutesTest {
  @TempDir Path site;

  private SharedNode node(Config config) {
    return new SharedNode(site, config, TestDef.named("fleet"), key -> "value of " + key).awaitInUse();
  }

  private void assertShares(Config config) throws Exception {
    try (SharedNode first = node(config);
        SharedNode second = node(config)) {
      for (int i = 0; i < 20; i++) {
        first.cache.get("key " + i);
      }
      first.awaitStored(20);
      for (int i = 0; i < 20; i++) {
        assertEquals("value of key " + i, second.cache.get("key " + i));
      }
      assertEquals(0, second.loads.get());
    }
  }

  @Test
  void theNextAddressIsTakenIfTheFirstDoesNotAnswer() throws Exception {
    try (RedisServer gone = new RedisServer(site);
        RedisServer redis = new RedisServer(site)) {
      gone.kill();
      assertShares(SharedNode.config(gone.address() + "," + redis.host()));
    }
  }

  @Test
  void aClusterIsAskedWhereTheSlotsAre() throws Exception {
    String bus = "" + freePort();
    try (RedisServer one = cluster("" + freePort());
        RedisServer two = cluster(bus)) {
      one.call("CLUSTER", "ADDSLOTSRANGE", "0", "8000");
      two.call("CLUSTER", "ADDSLOTSRANGE", "8001", "16383");
      meet(one, two, bus);
      assertShares(SharedNode.config(one.address().replace("redis:", "redis-cluster:")));
      assertFalse(one.names("site", "fleet").isEmpty());
      assertFalse(two.names("site", "fleet").isEmpty());
    }
  }

  @Test
  void slotsThatMoveCostOnlyTheirOwnKeys() throws Exception {
    String bus = "" + freePort();
    try (RedisServer one = cluster("" + freePort());
        RedisServer two = cluster(bus)) {
      one.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
      meet(one, two, bus);
      two.call("CLUSTER", "BUMPEPOCH"); // else old news of the other server could undo a move
      try (SharedNode node = node(SharedNode.config(one.address().replace("redis:", "redis-cluster:")))) {
        for (int slot = 0; slot < 4000; slot++) {
          move("" + slot, one, two);
          if (slot % 100 == 0) {
            node.cache.get("key " + slot);
          }
        }
        AtomicInteger next = new AtomicInteger(4000);
        SharedNode.await(
            () -> {
              for (int i = 0; i < 50; i++) {
                move("" + next.getAndIncrement(), one, two);
                node.cache.getUnchecked("later " + next.get());
              }
              return node.count(Counts.Event.FAILED) > 0 && !two.names("site", "fleet").isEmpty();
            },
            "no request met a moved slot, or the new server is not asked");
        assertEquals(0, node.shared().status().opened());
      }
    }
  }

  /** Makes two servers a cluster, once all slots are assigned. */
  private static void meet(RedisServer one, RedisServer two, String bus) {
    one.call("CLUSTER", "MEET", InetAddress.getLoopbackAddress().getHostAddress(), "" + two.port(), bus);
    SharedNode.await(() -> isWhole(one) && isWhole(two), "the cluster is not whole");
  }

  /** Moves a slot, with the loss of its keys. */
  private static void move(String slot, RedisServer from, RedisServer to) {
    String id = new String((byte[]) to.call("CLUSTER", "MYID"), UTF_8);
    to.call("CLUSTER", "SETSLOT", slot, "NODE", id);
    SharedNode.await(
        () -> {
          try {
            ((List<?>) from.call("CLUSTER", "GETKEYSINSLOT", slot, "9")).forEach(key -> from.call("DEL", (byte[]) key));
            from.call("CLUSTER", "SETSLOT", slot, "NODE", id);
            return true;
          } catch (JedisDataException e) { // a key has come since
            return false;
          }
        },
        "slot " + slot + " does not move");
  }

  @Test
  void aNodeThatBelongsToNoClusterIsNotAskedForEver() throws Exception {
    try (RedisServer stranger = cluster("" + freePort());
        RedisServer one = cluster("" + freePort())) {
      one.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
      SharedNode.await(() -> clusterInfo(one).contains("cluster_state:ok"), "the cluster is not whole");
      assertShares(SharedNode.config(stranger.address().replace("redis:", "redis-cluster:") + "," + one.host()));
    }
  }

  private RedisServer cluster(String bus) throws Exception {
    Path folder = Files.createTempDirectory(site, "node");
    return new RedisServer(
        folder, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-allow-replica-migration", "no");
  }

  private static int freePort() throws Exception {
    try (java.net.ServerSocket socket = new java.net.ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private static String clusterInfo(RedisServer node) {
    return new String((byte[]) node.call("CLUSTER", "INFO"), UTF_8);
  }

  private static boolean isWhole(RedisServer node) {
    String info = clusterInfo(node);
    return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2");
  }

  @Test
  void theSentinelsSayWhichServerItIs() throws Exception {
    Path file = Files.writeString(site.resolve("sentinel.conf"), "");
    try (RedisServer redis = new RedisServer(site);
        RedisServer sentinel = new RedisServer(site, file.toString(), "--sentinel")) {
      String loopback = InetAddress.getLoopbackAddress().getHostAddress();
      sentinel.call("SENTINEL", "MONITOR", "main", loopback, "" + redis.port(), "1");
      assertShares(SharedNode.config("redis-sentinel://" + sentinel.host() + "/main"));
      assertFalse(redis.names("site", "fleet").isEmpty());
    }
  }

  @Test
  void aServerIsTrustedOnlyIfItsCertificateIs() throws Exception {
    String loopback = InetAddress.getLoopbackAddress().getHostAddress();
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=cache",
        "-addext", "subjectAltName=IP:" + loopback, "-keyout", "key.pem", "-out", "cert.pem");
    trust(site.resolve("cert.pem"), site.resolve("trust.p12"));
    int tlsPort = freePort();
    try (RedisServer redis =
        new RedisServer(site, "--tls-port", "" + tlsPort, "--tls-cert-file", site.resolve("cert.pem").toString(),
            "--tls-key-file", site.resolve("key.pem").toString(), "--tls-auth-clients", "no")) {
      Config config = SharedNode.config("rediss://" + loopback + ":" + tlsPort);
      config.setString("cache", null, "refdbSharedTrustStore", site.resolve("trust.p12").toString());
      config.setString("cache", null, "refdbSharedTrustStorePassword", "changeit");
      assertShares(config);
      assertFalse(redis.names("site", "fleet").isEmpty());
      config.unset("cache", null, "refdbSharedTrustStore"); // Java's own, which does not know the certificate
      SharedNode stranger = new SharedNode(site, config, TestDef.named("fleet"), key -> "value of " + key);
      try (stranger) {
        TimeUnit.MILLISECONDS.sleep(1000);
        assertFalse(stranger.shared().isInUse());
        assertEquals("value of a", stranger.cache.get("a"));
      }
    }
  }

  private static void trust(Path certificate, Path store) throws Exception {
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    try (InputStream in = Files.newInputStream(certificate);
        OutputStream out = Files.newOutputStream(store)) {
      trusted.setCertificateEntry("cache", CertificateFactory.getInstance("X.509").generateCertificate(in));
      trusted.store(out, "changeit".toCharArray());
    }
  }

  private void run(String... command) throws Exception {
    Path log = site.resolve("log");
    Process process =
        new ProcessBuilder(command)
            .directory(site.toFile())
            .redirectErrorStream(true)
            .redirectOutput(log.toFile())
            .start();
    assertEquals(0, process.waitFor(), () -> log.toString());
  }

  @Test
  void theAdministratorSeesTheStateOfTheServer() throws Exception {
    try (RedisServer redis = new RedisServer(site, "--maxmemory-policy", "allkeys-lfu");
        SharedNode node = node(SharedNode.config(redis.address()))) {
      SharedStatus status = node.shared().status();
      assertTrue(status.inUse());
      assertFalse(status.encrypted());
      assertEquals("allkeys-lfu", status.evictionPolicy());
      assertTrue(status.text().contains("NOT ENCRYPTED"), status.text());
      redis.call("ACL", "SETUSER", "default", "-info");
      assertEquals("unknown", node.shared().status().evictionPolicy());
      node.cache.get("a");
      node.awaitStored(1);
      CacheStat stat = CacheAdmin.of(node.cache).orElseThrow().stat();
      assertEquals(1, stat.shared().get("stored"));
      assertTrue(stat.text().contains("shared: hits 0"), stat.text());
    }
  }

  @Test
  void wrongSettingsLeaveTheCachesAsTheyAre() {
    Config config = SharedNode.config("redis://user:secret@host:1");
    try (SharedNode node = new SharedNode(site, config, TestDef.named("fleet"), key -> "value")) {
      assertNull(node.shared());
      assertEquals("value", node.cache.getUnchecked("a"));
    }
  }
}

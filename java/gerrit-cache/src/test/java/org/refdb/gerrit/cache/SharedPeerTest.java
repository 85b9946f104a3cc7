package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Base64;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.cache.shared.Counts.Event;
import org.refdb.gerrit.cache.shared.ValueContext;
import org.refdb.gerrit.cache.store.CacheFolder;

/** A cold server has another one share what it has, and copies that. */
class SharedPeerTest extends WithWarming {
  private static final int KEYS = 300;
  private static final String PEER = "peer-1";

  /** The site has had its version of Gerrit, its settings and its shared cache for some time, and flushed it once. */
  @BeforeEach
  void ageTheSite() throws IOException {
    long then = System.currentTimeMillis() - Duration.ofHours(1).toMillis();
    redis.call("SET", "refdb:site:generation:", "" + then);
    redis.call("SET", "refdb:site:generation:fleet", "" + (then / 1_000 * 1_000 + 1));
    note(new ValueContext(config(PEER, true), site).hash(TestDef.named("fleet")));
  }

  /** Writes into the folder of the cache on what its values depend since an hour ago. */
  private void note(String context) throws IOException {
    CacheFolder folder = CacheFolder.of(site.resolve("cache").resolve("refdb"), "fleet");
    Files.createDirectories(folder.path());
    long then = System.currentTimeMillis() - Duration.ofHours(1).toMillis();
    folder.note(1, "offers", context + " " + then + " - 0");
  }

  private Config config(String instance, boolean hasFiles) {
    Config config = SharedNode.config(redis.address());
    config.setString("gerrit", null, "instanceId", instance);
    if (!hasFiles) {
      config.setLong("cache", "fleet", "diskLimit", 0);
    }
    return config;
  }

  private SharedNode node(Config config) {
    return node(config, TestDef.named("fleet"));
  }

  private static Warming warm(SharedNode cold, String peer, int rate) throws IOException {
    return new CacheAdmin(cold.factory()).warm(peer, null, rate);
  }

  /** Deletes the values, as a server of the shared cache does that has no room for them. */
  private void forgetValues() {
    redis.call("DEL", redis.names("site", "fleet").toArray(String[]::new));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aColdServerComputesAlmostNothingOfWhatItsPeerHas(boolean hasFiles) throws Exception {
    try (SharedNode peer = node(config(PEER, hasFiles));
        SharedNode cold = node(config("cold", hasFiles))) {
      fill(peer, KEYS);
      forgetValues();
      Warming.Progress progress = ended(warm(cold, PEER, FAST));
      assertEquals(Warming.State.DONE, progress.state(), progress.text());
      assertEquals(KEYS, progress.offered(), progress.text());
      assertEquals(KEYS, progress.stored(), progress.text());
      assertHasItself(cold, KEYS);
      assertEquals(0, redis.names("site", "peer").stream().filter(name -> name.endsWith("request")).count());
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatWasInvalidatedOrFlushedIsNotOffered(boolean hasFiles) throws Exception {
    try (SharedNode peer = node(config(PEER, hasFiles));
        SharedNode cold = node(config("cold", hasFiles))) {
      fill(peer, KEYS);
      peer.cache.invalidate("key 0");
      peer.cache.invalidate("key 1");
      peer.cache.get("key 1");
      SharedNode.await(() -> redis.names("site", "fleet").size() == KEYS - 2, "they are not deleted");
      forgetValues();
      Warming.Progress progress = ended(warm(cold, PEER, FAST));
      assertEquals(KEYS - 2, progress.offered(), progress.text());
      cold.shared().flush("fleet");
      Thread.sleep(1_500); // until the peer has read it
      progress = ended(warm(cold, PEER, FAST));
      assertEquals(Warming.State.DONE, progress.state(), progress.text());
      assertEquals(0, progress.offered(), "the peer has these values from before the flush");
    }
  }

  @Test
  void whatAPeerComputedBeforeItSharedIsOfferedUntilAFlush() throws Exception {
    redis.call("DEL", "refdb:site:generation:", "refdb:site:generation:fleet");
    HeapOpener files = new HeapOpener();
    Config alone = config(PEER, true);
    alone.unset("cache", null, "refdbShared");
    TestDef fleet = TestDef.named("fleet");
    try (SharedNode before = new SharedNode(site, alone, fleet, key -> "value of " + key, files)) {
      for (int i = 0; i < KEYS; i++) {
        before.cache.get("key " + i);
      }
    }
    Config sharing = config(PEER, true);
    try (SharedNode peer = new SharedNode(site, sharing, fleet, key -> "never", files).awaitInUse();
        SharedNode cold = node(config("cold", true))) {
      Warming.Progress progress = ended(warm(cold, PEER, FAST));
      assertEquals(KEYS, progress.offered(), progress.text());
      assertEquals(KEYS, progress.stored(), progress.text());
      assertHasItself(cold, KEYS);
      peer.shared().flush("fleet");
      Thread.sleep(1_500);
      assertEquals(0, ended(warm(cold, PEER, FAST)).offered(), "they are from before the flush");
    }
    redis.call("FLUSHALL", new String[0]); // the server forgets the flush, and all nodes restart
    try (SharedNode peer = new SharedNode(site, sharing, fleet, key -> "never", files).awaitInUse();
        SharedNode cold = node(config("cold", true))) {
      assertEquals(0, ended(warm(cold, PEER, FAST)).offered(), "the peer has noted the flush");
      assertTrue(peer.shared().isInUse());
    }
  }

  /** The values may be those of another version of Gerrit, which the same files may hold. */
  @Test
  void whatOtherSettingsMayHaveComputedIsNotOffered() throws Exception {
    note("0".repeat(64));
    try (SharedNode peer = node(config(PEER, true));
        SharedNode cold = node(config("cold", true))) {
      fill(peer, KEYS);
      forgetValues();
      Warming.Progress progress = ended(warm(cold, PEER, FAST));
      assertEquals(Warming.State.DONE, progress.state(), progress.text());
      assertEquals(0, progress.offered(), progress.text());
    }
  }

  @Test
  void aPeerKeepsTheRateAndStopsWithTheOneThatAsked() throws Exception {
    try (SharedNode peer = node(config(PEER, true));
        SharedNode cold = node(config("cold", true));
        SharedNode other = node(config("other", true))) {
      fill(peer, KEYS);
      forgetValues();
      Warming slow = warm(cold, PEER, 20);
      SharedNode.await(() -> slow.progress().offered() > 0, "it does not go on");
      Warming.Progress refused = ended(warm(other, PEER, 20));
      assertTrue(refused.failure().contains("another node"), refused.text());
      slow.stop();
      assertEquals(Warming.State.STOPPED, ended(slow).state());
      Thread.sleep(2_500);
      int stored = redis.names("site", "fleet").size();
      assertTrue(stored < KEYS / 2, stored + " were offered");
      Thread.sleep(500);
      assertEquals(stored, redis.names("site", "fleet").size(), "the peer goes on");
    }
  }

  @Test
  void aServerThatIsNotThereIsToldToTheAdministrator() throws Exception {
    try (SharedNode cold = node(config("cold", true))) {
      assertThrows(IOException.class, () -> warm(cold, "cold", FAST));
      Warming.Progress progress = ended(warm(cold, "nobody", FAST));
      assertEquals(Warming.State.FAILED, progress.state());
      assertTrue(progress.failure().contains("nobody"), progress.text());
    }
  }

  /** Where there is a key, whoever can write to the server cannot set a node to work. */
  @Test
  void aForgedRequestIsNoRequest() throws Exception {
    Config sealed = config(PEER, true);
    sealed.setString("cache", null, "refdbSharedKey", Base64.getEncoder().encodeToString(new byte[32]));
    try (SharedNode peer = node(sealed);
        SharedNode plain = node(config("cold", true))) {
      fill(peer, KEYS);
      long before = peer.count(Event.STORED);
      forgetValues();
      Warming.Progress progress = ended(warm(plain, PEER, FAST));
      assertEquals(Warming.State.FAILED, progress.state(), progress.text());
      assertEquals(before, peer.count(Event.STORED));
    }
  }
}

package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;

class OffersTest {
  @Test
  void wantOfMemoryDoesNotEndTheThread() throws Exception {
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", "redis://localhost:1");
    SharedSettings settings = SharedSettings.of(config, Path.of("/"));
    CountDownLatch isLost = new CountDownLatch(1);
    try (Offers offers = new Offers(null, new Breaker(), new EntryFormat(settings.keys()), settings)) {
      offers.start();
      offers.add(
          Offers.Offer.deletion(
              new Counts(),
              new byte[1],
              () -> {
                throw new OutOfMemoryError("planted");
              }));
      offers.add(Offers.Offer.deletion(new Counts(), new byte[1], isLost::countDown));
      assertTrue(isLost.await(20, TimeUnit.SECONDS), "the thread has ended");
    }
  }
}

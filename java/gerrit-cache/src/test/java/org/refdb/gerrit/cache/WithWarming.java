package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.eclipse.jgit.lib.Config;

/** Tests in which a cold server copies what others have computed. */
abstract class WithWarming extends WithRedis {
  /** A rate that limits nothing. */
  static final int FAST = 100_000;

  SharedNode node(Config config, TestDef def) {
    return new SharedNode(site, config, def, WithWarming::valueOf).awaitInUse();
  }

  private static String valueOf(String key) {
    return "value of " + key;
  }

  /** Lets a node compute and share so many keys. */
  static void fill(SharedNode peer, int keys) throws Exception {
    for (int i = 0; i < keys; i++) {
      peer.cache.get("key " + i);
    }
    peer.awaitStored(keys);
  }

  /** Waits for the end of a copy, and returns what came of it. */
  static Warming.Progress ended(Warming warming) {
    SharedNode.await(() -> warming.progress().state() != Warming.State.RUNNING, "it does not end");
    return warming.progress();
  }

  /** Asserts that a node has nearly all of so many keys itself, while the server of the shared cache is paused. */
  void assertHasItself(SharedNode cold, int keys) throws Exception {
    redis.pause();
    try {
      for (int i = 0; i < keys; i++) {
        String key = "key " + i;
        assertEquals(valueOf(key), cold.cache.get(key));
      }
    } finally {
      redis.resume();
    }
    assertTrue(cold.loads.get() <= keys / 20, cold.loads.get() + " values were computed");
  }
}

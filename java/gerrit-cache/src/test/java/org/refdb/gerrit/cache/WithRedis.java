package org.refdb.gerrit.cache;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.shared.RedisServer;

/** Tests of the shared cache with a real server, which each of them gets empty. */
abstract class WithRedis {
  @TempDir Path site;
  RedisServer redis;

  @BeforeEach
  void startRedis() throws IOException {
    redis = new RedisServer(site);
  }

  @AfterEach
  void stopRedis() throws IOException {
    redis.close();
  }
}

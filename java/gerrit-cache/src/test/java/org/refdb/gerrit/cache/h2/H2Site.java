package org.refdb.gerrit.cache.h2;

import com.google.common.cache.Cache;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import com.google.gerrit.server.util.time.TimeUtil;
import com.google.inject.Module;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.TestGerrit;
import org.refdb.gerrit.cache.VersionedCaches;

/** A site that has its caches in H2 or in refdb, and a clock that tests move. */
abstract class H2Site {
  @TempDir Path site;
  final AtomicLong now = new AtomicLong(System.currentTimeMillis());
  private final String lists;

  /** Takes the name of a cache whose values only Java can serialise. */
  H2Site(String lists) {
    this.lists = lists;
  }

  @BeforeEach
  void windTheClock() {
    TimeUtil.setCurrentMillisSupplier(now::get);
  }

  @AfterEach
  void releaseTheClock() {
    TimeUtil.resetCurrentMillisSupplier();
  }

  Module caches(int version) {
    return new VersionedCaches(version) {
      @Override
      protected void configure() {
        super.configure();
        persist(lists, String.class, ArrayList.class).version(version);
      }
    };
  }

  Config config() {
    return TestGerrit.config();
  }

  TestGerrit h2(int version) {
    return new TestGerrit(site, config(), new H2CacheModule(), caches(version));
  }

  TestGerrit refdb(int version) {
    return new TestGerrit(site, config(), TestGerrit.refdb(site, config()), caches(version));
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  Cache<String, ArrayList<String>> lists(TestGerrit gerrit) {
    return (Cache) gerrit.cache(lists, String.class, ArrayList.class);
  }

  static Cache<ObjectId, String> objects(TestGerrit gerrit) {
    return gerrit.cache("objects", ObjectId.class, String.class);
  }

  static ObjectId id(int i) {
    return ObjectId.fromString(String.format("%040x", i));
  }
}

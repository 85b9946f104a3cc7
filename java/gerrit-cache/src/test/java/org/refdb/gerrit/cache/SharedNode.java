package org.refdb.gerrit.cache;

import com.google.common.cache.LoadingCache;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.eclipse.jgit.lib.Config;
import org.refdb.gerrit.cache.shared.Counts;
import org.refdb.gerrit.cache.shared.SharedCaches;
import org.refdb.gerrit.cache.store.Store;

/** A server of a fleet: its caches in memory and in stores of its own, and what it shares. */
final class SharedNode implements AutoCloseable {
  private final TestGerrit gerrit;
  final HeapOpener opener;
  final AtomicInteger loads = new AtomicInteger();
  final LoadingCache<String, String> cache;

  SharedNode(Path site, Config config, TestDef def, Function<String, String> loader) {
    this(site, config, def, loader, new HeapOpener());
  }

  /** Starts a server that finds what an earlier one has left in its files. */
  SharedNode(Path site, Config config, TestDef def, Function<String, String> loader, HeapOpener files) {
    opener = files;
    gerrit = new TestGerrit(site, config, TestGerrit.serverOn(opener), TestGerrit.strings("strings"));
    cache =
        gerrit
            .factory()
            .build(
                def,
                CacheContractTest.loader(
                    key -> {
                      loads.incrementAndGet();
                      return loader.apply(key);
                    }));
  }

  /** The settings of a node whose cache {@code fleet} the administrator shares. */
  static Config config(String address) {
    Config config = TestGerrit.config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", address);
    config.setBoolean("cache", "fleet", "shared", true);
    // Long times, because machines that run tests are slow; other tests set short deadlines.
    config.setString("cache", null, "refdbSharedDeadline", "500 ms");
    config.setString("cache", null, "refdbSharedBudget", "5 s");
    return config;
  }

  RefdbCacheFactory factory() {
    return (RefdbCacheFactory) gerrit.factory();
  }

  SharedCaches shared() {
    return factory().shared();
  }

  SharedNode awaitInUse() {
    await(() -> shared().isInUse(), "the shared cache is not in use");
    return this;
  }

  long count(Counts.Event event) {
    return ((DiskCache<String, String>) cache).disk().shared().tier().counts().of(event);
  }

  Store.Stats stats() {
    return ((DiskCache<String, String>) cache).disk().storeStats();
  }

  /** Makes the node believe that its loads take {@code millis} milliseconds on average. */
  void teach(long millis) {
    for (int i = 0; i < 16; i++) {
      ((DiskCache<String, String>) cache).disk().shared().tier().loaded(TimeUnit.MILLISECONDS.toNanos(millis));
    }
  }

  void awaitStored(long entries) {
    await(() -> count(Counts.Event.STORED) >= entries, "no value was stored");
  }

  static void await(BooleanSupplier condition, String otherwise) {
    if (!comesTrue(condition, 120)) {
      throw new AssertionError(otherwise);
    }
  }

  /** Waits until a condition is true. Returns false if it is not within {@code seconds}. */
  static boolean comesTrue(BooleanSupplier condition, int seconds) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) {
        return false;
      }
      Thread.yield();
    }
    return true;
  }

  @Override
  public void close() {
    gerrit.close();
  }
}

package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import com.google.common.cache.LoadingCache;
import com.google.gerrit.server.cache.PersistentCache;
import com.google.gerrit.server.cache.PersistentCache.DiskStats;
import java.io.File;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.Planted;
import org.refdb.gerrit.cache.store.NativeOpener;
import org.refdb.gerrit.cache.store.Store;

/**
 * A test for each fault that was found by running another replacement of Gerrit's H2 caches. Most tests use real files,
 * and two run a test of another class.
 */
class KnownFaultsTest {
  private static final long LIMIT = 4 << 20;

  @TempDir Path site;
  private TestGerrit gerrit;

  @BeforeEach
  void start() {
    start(TestGerrit.config());
  }

  private void start(Config config) {
    gerrit = new TestGerrit(site, config, TestGerrit.refdb(site, config), TestGerrit.strings("strings"));
  }

  private void restart() {
    gerrit.close();
    start(TestGerrit.config());
  }

  @AfterEach
  void stop() {
    gerrit.close();
  }

  private Cache<String, String> cache(String name) {
    return gerrit.factory().build(TestDef.named(name).withDiskLimit(LIMIT));
  }

  private static DiskStats disk(Cache<?, ?> cache) {
    return ((PersistentCache) cache).diskStats();
  }

  private long bytesOnDisk(String name) {
    return bytesIn(site.resolve("cache").resolve(NativeOpener.FOLDER).resolve(name).toFile());
  }

  /** Sums the sizes of the files, some of which may come and go meanwhile. */
  private static long bytesIn(File folder) {
    File[] files = folder.listFiles();
    long bytes = 0;
    for (File file : files == null ? new File[0] : files) {
      bytes += file.isDirectory() ? bytesIn(file) : file.length();
    }
    return bytes;
  }

  private static String text(int seed, int length) {
    StringBuilder text = new StringBuilder(length);
    for (int i = 0; text.length() < length; i++) {
      text.append(seed).append(' ').append(i).append(' ');
    }
    return text.substring(0, length);
  }

  @Test
  void fault01AHitInMemoryNeverTouchesTheDisk() throws Exception {
    Cache<String, String> cache = cache("memory");
    gerrit.awaitWarmUp();
    cache.put("key", "value");
    int deserialized = TextSerializer.INSTANCE.deserialized.get();
    for (int i = 0; i < 1000; i++) {
      assertEquals("value", cache.getIfPresent("key"));
    }
    assertEquals(deserialized, TextSerializer.INSTANCE.deserialized.get());
    assertEquals(0, disk(cache).requestCount());
  }

  @Test
  void fault02DiskStatisticsCountWhatHappened() {
    cache("counted").put("key", "value");
    restart();
    Cache<String, String> cache = cache("counted");
    cache.getIfPresent("key");
    cache.getIfPresent("absent");
    assertEquals(1, disk(cache).hitCount());
    assertEquals(2, disk(cache).requestCount());
    assertEquals(1, disk(cache).size());
    assertTrue(disk(cache).space() > 0 && disk(cache).space() < 1024, "space " + disk(cache).space());
  }

  @Test
  void fault03InvalidationsLeaveNothingBehind() {
    Cache<String, String> cache = cache("invalidated");
    cache.put("stays", "value");
    for (int i = 0; i < 500; i++) {
      cache.put("key " + i, "value");
      cache.invalidate("key " + i);
    }
    assertEquals(1, disk(cache).size());
    restart();
    assertEquals(1, disk(cache("invalidated")).size());
  }

  @Test
  void fault04AnInvalidatedValueIsNotBroughtBackByItsOwnLoad() throws Exception {
    LoadingCache<String, String> cache =
        gerrit.factory().build(TestDef.named("ghost").withDiskLimit(LIMIT), CacheContractTest.loader(key -> "stale"));
    for (int i = 0; i < 200; i++) {
      cache.get("key " + i);
      cache.invalidate("key " + i);
    }
    CountDownLatch isLoading = new CountDownLatch(1);
    CountDownLatch isInvalidated = new CountDownLatch(1);
    LoadingCache<String, String> late =
        gerrit.factory().build(TestDef.named("late").withDiskLimit(LIMIT), CacheContractTest.loader(key -> {
          isLoading.countDown();
          isInvalidated.await();
          return "stale";
        }));
    DiskTier<?, ?> disk = ((DiskCache<?, ?>) late).disk();
    CompletableFuture<String> load = CompletableFuture.supplyAsync(() -> late.getUnchecked("key"), KnownFaultsTest::inAThread);
    isLoading.await();
    long before = disk.now();
    // The disk forgets the key at once; the memory tier waits for the load.
    CompletableFuture<Void> invalidation = CompletableFuture.runAsync(() -> late.invalidate("key"), KnownFaultsTest::inAThread);
    while (disk.now() == before) {
      Thread.sleep(1);
    }
    isInvalidated.countDown();
    assertEquals("stale", load.get());
    invalidation.get();
    assertNull(late.getIfPresent("key"));
    restart();
    Cache<String, String> next = cache("ghost");
    for (int i = 0; i < 200; i++) {
      assertNull(next.getIfPresent("key " + i), "key " + i);
    }
    assertNull(cache("late").getIfPresent("key"), "the load has written what was invalidated meanwhile");
  }

  /** Runs a task in a thread of its own, because the common pool may have only one. */
  private static void inAThread(Runnable task) {
    new Thread(task).start();
  }

  @Test
  void fault05AFullCacheTakesNewEntriesAndLetsOldOnesGo() {
    Cache<String, String> cache = cache("full");
    int entries = 20_000;
    for (int i = 0; i < entries; i++) {
      cache.put("key " + i, text(i, 1000));
    }
    restart();
    Cache<String, String> next = cache("full");
    int newest = 0;
    for (int i = entries - 500; i < entries; i++) {
      newest += next.getIfPresent("key " + i) == null ? 0 : 1;
    }
    assertTrue(newest >= 490, "only " + newest + " of the newest 500 are there");
    assertTrue(bytesOnDisk("full") <= LIMIT, bytesOnDisk("full") + " bytes");
  }

  @Test
  void fault06AFullCacheUsesItsRoom() {
    Cache<String, String> cache = cache("used");
    for (int i = 0; i < 20_000; i++) {
      cache.put("key " + i, text(i, 1000));
    }
    assertTrue(disk(cache).space() > LIMIT / 2, "only " + disk(cache).space() + " bytes of " + LIMIT + " are used");
  }

  @Test
  void fault07EntriesOfAKilledServerCanStillBeEvicted() throws Exception {
    Killed.fillAndKill(site, "killed", LIMIT);
    Cache<String, String> cache = cache("killed");
    long before = disk(cache).size();
    assertTrue(before > 500, before + " entries survived");
    for (int i = 0; i < 10_000; i++) {
      cache.put("after " + i, text(i, 1000));
    }
    assertTrue(bytesOnDisk("killed") <= LIMIT, bytesOnDisk("killed") + " bytes");
    assertEquals(text(9_999, 1000), cache.getIfPresent("after 9999"));
  }

  @Test
  void fault08TwoGenerationsOfAPluginHaveOneCacheOpen() {
    Cache<String, String> old = cache("plugin.cache");
    old.put("key", "value");
    assertEquals("value", cache("plugin.cache").getIfPresent("key"));
  }

  @Test
  void fault09AStartLosesNothing() {
    Cache<String, String> cache = cache("kept");
    for (int i = 0; i < 2000; i++) {
      cache.put("key " + i, text(i, 100));
    }
    for (int start = 0; start < 3; start++) {
      restart();
      Cache<String, String> again = cache("kept");
      assertEquals(2000, disk(again).size());
      for (int i = 0; i < 2000; i++) {
        assertEquals(text(i, 100), again.getIfPresent("key " + i));
      }
    }
  }

  @Test
  void fault10NothingIsToBeSized() {
    Cache<String, String> cache = cache("sizes");
    assertTrue(bytesOnDisk("sizes") < 64 << 10, "an empty cache takes " + bytesOnDisk("sizes") + " bytes");
    cache.put("small", "s");
    cache.put("large", text(1, 400_000));
    cache.put(text(2, 50_000), "long key");
    restart();
    Cache<String, String> larger = gerrit.factory().build(TestDef.named("sizes").withDiskLimit(2 * LIMIT));
    assertEquals("s", larger.getIfPresent("small"));
    assertEquals(text(1, 400_000), larger.getIfPresent("large"));
    assertEquals("long key", larger.getIfPresent(text(2, 50_000)));
  }

  @Test
  void fault11NoPutThrowsHoweverManyThereWere() {
    Cache<String, String> cache =
        gerrit.factory().build(TestDef.named("many").withDiskLimit(1 << 20).withWeight(16));
    for (int i = 0; i < 30_000; i++) {
      cache.put("key " + i, text(i, 200));
    }
    assertNotNull(cache.getIfPresent("key 29999"));
  }

  @Test
  void fault12EntriesTakeNoHeap() {
    Cache<String, String> cache =
        gerrit.factory().build(TestDef.named("heap").withDiskLimit(64 << 20).withWeight(16));
    cache.put("warm", "up");
    long before = usedHeap();
    int entries = 200_000;
    for (int i = 0; i < entries; i++) {
      cache.put("a key of a usual length, which is here " + i, "value");
    }
    long perEntry = (usedHeap() - before) / entries;
    assertTrue(perEntry < 8, perEntry + " bytes of heap an entry");
    assertTrue(disk(cache).size() > entries * 0.99, disk(cache).size() + " entries");
  }

  private static long usedHeap() {
    long least = Long.MAX_VALUE;
    for (int i = 0; i < 4; i++) {
      System.gc();
      Runtime runtime = Runtime.getRuntime();
      least = Math.min(least, runtime.totalMemory() - runtime.freeMemory());
    }
    return least;
  }

  @Test
  void fault13NoFlagOfTheJvmIsNeeded() throws Exception {
    assertEquals(List.of(), Killed.jvmFlags());
    Killed.fillAndKill(site, "plain", LIMIT);
    assertTrue(disk(cache("plain")).size() > 0);
  }

  /**
   * No class of this module outside the package of the shared cache opens a network connection. That package opens
   * some if an address is set, and is not examined here.
   */
  @Test
  void fault14NothingOpensAConnection() throws Exception {
    Class<?> where = Planted.is("caches-14") ? KnownFaultsTest.class : RefdbCacheModule.class;
    Path classes = Path.of(where.getProtectionDomain().getCodeSource().getLocation().toURI());
    try (Stream<Path> files = Files.walk(classes)) {
      Path shared = Path.of("org", "refdb", "gerrit", "cache", "shared");
      for (Path file : files.filter(name -> name.toString().endsWith(".class")).toList()) {
        if (classes.relativize(file).startsWith(shared)) {
          continue;
        }
        String content = Files.readString(file, java.nio.charset.StandardCharsets.ISO_8859_1);
        for (String network : List.of("java/net/Socket", "java/net/http", "java/net/URLConnection", "openConnection")) {
          assertTrue(!content.contains(network), file + " uses " + network);
        }
      }
    }
  }

  @Test
  void fault15NothingElseIsShipped() throws Exception {
    String pom = planted("caches-15", Files.readString(Path.of("pom.xml"), UTF_8), "provided", "compile");
    String dependencies = pom.substring(pom.indexOf("<dependencies>"), pom.indexOf("</dependencies>"));
    for (String dependency : dependencies.split("<dependency>")) {
      boolean isRelocated = dependency.contains("<artifactId>jedis</artifactId>"); // Gerrit has none
      if (dependency.contains("artifactId") && !dependency.contains("<groupId>org.refdb</groupId>") && !isRelocated) {
        assertTrue(dependency.contains("<scope>provided</scope>"), dependency);
      }
    }
  }

  @Test
  void fault16AtTheEndAllThatWasPutIsThere() {
    Cache<String, String> cache = cache("ended");
    for (int i = 0; i < 3000; i++) {
      cache.put("key " + i, "value");
    }
    gerrit.close();
    cache.put("late", "value");
    start(TestGerrit.config());
    assertEquals(3000, disk(cache("ended")).size());
  }

  @Test
  void fault17ACacheMadeAfterTheStartIsHeldToItsLimit() {
    Cache<String, String> cache = cache("plugin.late");
    for (int i = 0; i < 10_000; i++) {
      cache.put("key " + i, text(i, 1000));
    }
    assertTrue(bytesOnDisk("plugin.late") <= LIMIT, bytesOnDisk("plugin.late") + " bytes");
  }

  @Test
  void fault18EachGenerationOfAPluginUsesItsOwnSerializer() {
    new GenerationsTest().withOpener(site, GenerationsTest::eachGenerationUsesItsOwnSerializer);
  }

  @Test
  void fault19AnEntryDueForRefreshStaysUntilTheReloadIsDone() throws Exception {
    AgeTest ages = new AgeTest();
    ages.site = site.resolve("ages");
    ages.start();
    try {
      ages.aFailedRefreshLosesNothing();
    } finally {
      ages.stop();
    }
  }

  @Test
  void fault20AgeingNeedsNoScanOfTheEntries() throws Exception {
    Cache<String, String> cache =
        gerrit.factory().build(TestDef.named("aged").withDiskLimit(LIMIT).withAges(Duration.ofMillis(1), null));
    gerrit.awaitWarmUp();
    cache.put("key", "value");
    int deserialized = TextSerializer.INSTANCE.deserialized.get();
    Thread.sleep(5);
    assertNull(cache.getIfPresent("key"));
    assertEquals(deserialized, TextSerializer.INSTANCE.deserialized.get(), "an entry too old was read");

    // The processor time of 40 reads is compared with that of one scan of all records.
    TestDef ageing = TestDef.named("ageing").withDiskLimit(64 << 20).withAges(Duration.ofHours(1), null);
    Cache<String, String> large = gerrit.factory().build(ageing);
    for (int i = 0; i < 20_000; i++) {
      large.put("key " + i, text(i, 1000));
    }
    restart();
    DiskCache<String, String> again = (DiskCache<String, String>) gerrit.factory().build(ageing);
    assertNotNull(again.getIfPresent("key 0"));
    long reads = processorNanos(() -> {
      for (int i = 1; i <= 40; i++) {
        assertNotNull(again.getIfPresent("key " + i));
      }
    });
    Store.Upkeep upkeep = again.disk().stores().get().upkeep();
    long scan = processorNanos(() -> assertEquals(20_000, upkeep.verify().good()));
    assertTrue(reads < scan, "40 reads take " + reads + " ns, one scan of all entries " + scan + " ns");
  }

  /** Returns the processor time that {@code work} takes on this thread, which other programs do not make longer. */
  private static long processorNanos(Runnable work) {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long start = threads.getCurrentThreadCpuTime();
    work.run();
    return threads.getCurrentThreadCpuTime() - start;
  }

  @Test
  void fault21WhatIsClosedIsFree() throws Exception {
    cache("closed").put("key", "value");
    gerrit.close();
    Path self = Path.of("/proc/self/fd");
    try (Stream<Path> open = Files.list(self)) {
      for (Path descriptor : open.toList()) {
        Path target = Files.exists(descriptor) ? Files.readSymbolicLink(descriptor) : descriptor;
        assertTrue(!target.startsWith(site.toRealPath()), target + " is still open");
      }
    }
    String folder = site.toRealPath().toString();
    // The native library stays mapped, from a file in this folder if this test was the first to load the library.
    List<String> mapped =
        Files.readAllLines(Path.of("/proc/self/maps")).stream()
            .filter(line -> line.contains(folder) && !line.contains("librefdb_jni.so"))
            .toList();
    assertEquals(List.of(), mapped);
    start(TestGerrit.config());
  }

  @Test
  void fault22AFlippedBitIsAMissNeverAWrongValue() throws Exception {
    Cache<String, String> cache = cache("flipped");
    for (int i = 0; i < 500; i++) {
      cache.put("key " + i, text(i, 500));
    }
    gerrit.close();
    Path folder = site.resolve("cache").resolve(NativeOpener.FOLDER).resolve("flipped");
    List<Path> files;
    try (Stream<Path> found = Files.walk(folder)) {
      files = found.filter(Files::isRegularFile).filter(file -> file.toFile().length() > 10_000).toList();
    }
    assertTrue(!files.isEmpty());
    for (Path file : files) {
      try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
        bytes.seek(3000);
        int value = bytes.read();
        bytes.seek(3000);
        bytes.write(value ^ 4);
      }
    }
    start(TestGerrit.config());
    Cache<String, String> harmed = cache("flipped");
    int found = 0;
    for (int i = 0; i < 500; i++) {
      String value = harmed.getIfPresent("key " + i);
      if (value != null) {
        found++;
        assertEquals(text(i, 500), value);
      }
    }
    assertTrue(found < 500, "no bit was flipped where it matters");
    assertTrue(found > 400, "only " + found + " of 500 survived one flipped bit in each of " + files.size() + " files");
  }

  @Test
  void fault23TheLicenceAllowsEveryoneToUseIt() throws Exception {
    Path licence = Path.of("").toAbsolutePath();
    while (!Files.exists(licence.resolve("LICENSE-APACHE"))) {
      licence = licence.getParent();
    }
    String text = Files.readString(licence.resolve("LICENSE-APACHE"));
    assertTrue(planted("caches-23", text, "Apache", "Business Source").contains("Apache License"));
  }

  /** The text of a file, in which words are replaced if this fault is planted. */
  private static String planted(String fault, String text, String words, String others) {
    return Planted.is(fault) ? text.replace(words, others) : text;
  }
}

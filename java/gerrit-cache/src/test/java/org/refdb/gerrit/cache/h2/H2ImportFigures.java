package org.refdb.gerrit.cache.h2;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.cache.Cache;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import com.google.inject.Module;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.ObjectId;
import org.h2.Driver;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.SiteLibrary;
import org.refdb.gerrit.cache.TestGerrit;
import org.refdb.gerrit.cache.VersionedCaches;
import org.refdb.gerrit.cache.store.EncryptionKeys;

/**
 * Measures an import from H2, and the starts before and after it, each in a Java of its own. It is no test, and runs
 * only when {@code bench/bench-h2-import} asks for it by name.
 */
class H2ImportFigures {
  private static final String CACHE = "objects";
  private static final int VERSION = 1;
  private static final int VALUE_CHARS = 60;
  private static final long LIMIT_BYTES = 8L << 30;

  @TempDir Path folder;

  /** Prints the figures. */
  @Test
  void figures() throws Exception {
    int entries = Integer.parseInt(System.getenv("REFDB_FIGURES_ENTRIES"));
    H2File file = new H2File(folder.resolve("cache"), CACHE);
    Files.createDirectories(folder.resolve("cache"));
    step("fill", entries);
    System.out.printf(Locale.ROOT, "H2 file: %.2f GB%n", Files.size(file.own()) / 1e9);
    step("h2-start", entries);
    step("import", entries);
    step("refdb-start", entries);
    file.move(file.aside(), file.own());
    step("takeover", entries);
  }

  /**
   * Runs one step in a Java of its own. The release build of the engine comes first on the class path, because the
   * tests' build checks itself and is slow.
   */
  private void step(String name, int entries) throws Exception {
    String path = System.getenv("REFDB_FIGURES_ENGINE") + File.pathSeparator + System.getProperty("java.class.path");
    List<String> command =
        List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx1500m",
            "--enable-native-access=ALL-UNNAMED",
            "-cp",
            path,
            H2ImportFigures.class.getName(),
            name,
            folder.toString(),
            String.valueOf(entries));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    try (BufferedReader output = process.inputReader()) {
      output.lines().forEach(System.out::println);
    }
    if (process.waitFor() != 0) {
      throw new AssertionError(name + " ended with " + process.exitValue());
    }
  }

  /**
   * Takes one step.
   *
   * @param arguments the name of the step, the folder of the site, the number of entries
   */
  public static void main(String[] arguments) throws Exception {
    Path site = Path.of(arguments[1]);
    int entries = Integer.parseInt(arguments[2]);
    Config config = TestGerrit.config();
    config.setLong("cache", CACHE, "diskLimit", LIMIT_BYTES);
    long start = System.nanoTime();
    switch (arguments[0]) {
      case "fill" -> fill(site, entries);
      case "h2-start" -> {
        awaitEntry(site, config, new H2CacheModule(), entries);
        System.out.printf(Locale.ROOT, "h2-start: first answer after %.1f s%n", (System.nanoTime() - start) / 1e9);
        while (isBuildingFilter() || isBuildingFilter()) {
          Thread.sleep(20);
        }
      }
      case "refdb-start" -> awaitEntry(site, config, TestGerrit.refdb(site, config), entries);
      case "import" -> importOffline(site);
      case "takeover" -> takeOver(site, config, start);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    System.out.printf(
        Locale.ROOT, "%s: %.1f s, %.0f entries/s; memory at most %s%n", arguments[0], seconds, entries / seconds, memory());
    System.exit(0);
  }

  private static void fill(Path site, int entries) throws IOException {
    Path file = new H2File(site.resolve("cache"), CACHE).own();
    try (H2Writer writer = H2Writer.create(new Driver(), file, false, VERSION)) {
      byte[] key = new byte[20];
      for (int i = 0; i < entries && !writer.hasFailed(); i++) {
        H2Site.id(i).copyRawTo(key, 0);
        String value = ("value " + i + " ".repeat(VALUE_CHARS)).substring(0, VALUE_CHARS);
        writer.add(key, value.getBytes(UTF_8), 1_700_000_000_000L + i);
      }
      writer.finish();
    }
  }

  /** Starts the caches of a Gerrit, and looks up one entry, which must be there. */
  private static void awaitEntry(Path site, Config config, Module module, int entries) {
    TestGerrit gerrit = new TestGerrit(site, config, module, new VersionedCaches(VERSION));
    Cache<ObjectId, String> objects = H2Site.objects(gerrit);
    if (objects.getIfPresent(H2Site.id(entries / 2)) == null) {
      throw new AssertionError("an entry is missing");
    }
  }

  /** Returns whether Gerrit's H2 caches are still reading all keys, which they do at each start for a Bloom filter. */
  private static boolean isBuildingFilter() {
    return Thread.getAllStackTraces().values().stream()
        .flatMap(Arrays::stream)
        .anyMatch(frame -> frame.getMethodName().equals("buildBloomFilter"));
  }

  private static void importOffline(Path site) throws Exception {
    SiteLibrary.load(site.resolve("data/refdb"));
    OfflineCaches.SettingsOf settings =
        cache -> new OfflineCaches.Settings(LIMIT_BYTES, EncryptionKeys.of(cache, null, List.of()));
    OfflineCaches offline = new OfflineCaches(site.resolve("cache"), settings, (cache, done, all) -> {});
    System.out.println(offline.importAll(new Driver(), false));
  }

  private static void takeOver(Path site, Config config, long start) throws InterruptedException {
    TestGerrit gerrit =
        new TestGerrit(site, config, TestGerrit.refdb(site, config), new VersionedCaches(VERSION));
    System.out.printf(Locale.ROOT, "takeover: the caches were ready after %.1f s%n", (System.nanoTime() - start) / 1e9);
    H2File file = new H2File(site.resolve("cache"), CACHE);
    while (!Files.exists(file.aside())) {
      Thread.sleep(20);
    }
    gerrit.close();
  }

  private static String memory() throws IOException {
    return Files.readAllLines(Path.of("/proc/self/status")).stream()
        .filter(line -> line.startsWith("VmHWM:"))
        .map(line -> line.substring("VmHWM:".length()).strip())
        .findFirst()
        .orElse("unknown");
  }
}

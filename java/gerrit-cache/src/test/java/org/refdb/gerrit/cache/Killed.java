package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.cache.Cache;
import com.google.gerrit.server.cache.PersistentCache;
import com.google.gerrit.server.cache.h2.H2CacheModule;
import com.google.inject.Module;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;

/**
 * A JVM of its own that uses caches and is killed, with no flag but its class path and, if there is one, the planted
 * fault.
 */
public final class Killed {
  private Killed() {}

  static List<String> jvmFlags() {
    return List.of();
  }

  /** Has another process fill a cache beyond its limit, and kills it without warning. */
  static void fillAndKill(Path site, String cache, long limit) throws Exception {
    run(site, "fill", cache, String.valueOf(limit));
  }

  /** Has another process store two sessions and end one of them, and kills it at once. */
  static void logoutAndKill(Path site) throws Exception {
    run(site, "logout");
  }

  /** Something to do while the other process waits. */
  public interface Meanwhile {
    void run() throws Exception;
  }

  /** Has another process use refdb's caches, does something, and kills it. */
  public static void whileRefdbRuns(Path site, Meanwhile meanwhile) throws Exception {
    run(site, meanwhile, "logout");
  }

  /** Has another process use H2 caches, does something, and kills it. */
  public static void whileH2Runs(Path site, Meanwhile meanwhile) throws Exception {
    run(site, meanwhile, "h2");
  }

  /** Has another process, where the native library has no folder to be loaded from, use caches, and ends it. */
  static void withoutEngine(Path site) throws Exception {
    run(site, "no-engine");
  }

  private static void run(Path site, String... arguments) throws Exception {
    run(site, () -> {}, arguments);
  }

  private static void run(Path site, Meanwhile meanwhile, String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(jvmFlags());
    String fault = System.getProperty("refdb.planted.fault");
    if (fault != null) {
      command.add("-Drefdb.planted.fault=" + fault);
    }
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Killed.class.getName(), site.toString()));
    command.addAll(List.of(arguments));
    Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream(), UTF_8))) {
      String line = output.readLine();
      if (!"done".equals(line)) {
        throw new AssertionError("the other process said " + line);
      }
      meanwhile.run();
    } finally {
      process.destroyForcibly();
      process.waitFor(1, TimeUnit.MINUTES);
    }
  }

  /** The other process. */
  public static void main(String[] arguments) throws Exception {
    Path site = Path.of(arguments[0]);
    Config config = TestGerrit.config();
    if (arguments[1].equals("no-engine")) {
      Path file = site.resolve("a file");
      Files.writeString(file, "and no folder");
      config.setString("refdb", null, "nativeDirectory", file.resolve("below").toString());
    }
    Module caches = arguments[1].equals("h2") ? new H2CacheModule() : TestGerrit.refdb(site, config);
    TestGerrit gerrit = new TestGerrit(site, config, caches, TestGerrit.strings("strings"));
    switch (arguments[1]) {
      case "fill" -> {
        Cache<String, String> cache =
            gerrit.factory().build(TestDef.named(arguments[2]).withDiskLimit(Long.parseLong(arguments[3])));
        for (int i = 0; i < 10_000; i++) {
          cache.put("before " + i, "v".repeat(1000));
        }
      }
      case "logout" -> {
        Cache<String, String> sessions = gerrit.factory().build(TestDef.named("web_sessions"));
        sessions.put("stays", "session");
        sessions.put("leaves", "session");
        sessions.invalidate("leaves");
      }
      case "h2", "no-engine" -> {
        gerrit.strings().put("key", "value");
        while (((PersistentCache) gerrit.strings()).diskStats().size() == 0) {
          Thread.sleep(10); // stored in the background
        }
      }
      default -> throw new IllegalArgumentException(arguments[1]);
    }
    System.out.println("done");
    System.out.flush();
    Thread.sleep(Long.MAX_VALUE);
  }
}

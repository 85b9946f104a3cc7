package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import com.google.inject.Inject;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What administrators see of caches that are in use. */
class CacheToolsTest {
  @TempDir Path site;

  private static final class Injected {
    @Inject(optional = true)
    private CacheAdmin admin;
  }

  private TestGerrit gerrit() {
    return new TestGerrit(
        site, TestGerrit.config(), TestGerrit.refdb(site, TestGerrit.config()), TestGerrit.strings("strings"));
  }

  private static CacheAdmin admin(TestGerrit gerrit) {
    return gerrit.injector.getInstance(CacheAdmin.class);
  }

  private static CacheTools tools(TestGerrit gerrit, String name) {
    return admin(gerrit).named(name).orElseThrow();
  }

  @Test
  void figuresTellWhatIsThereAndHowReadsWent() throws Exception {
    try (TestGerrit gerrit = gerrit()) {
      assertNull(tools(gerrit, "strings").stat().hitRatio(), "nothing was read yet");
      gerrit.strings().put("a", "value");
      gerrit.strings().put("b", "value");
    }
    try (TestGerrit gerrit = gerrit()) {
      gerrit.awaitWarmUp(); // the start itself reads one entry
      CacheStat before = tools(gerrit, "strings").stat();
      assertEquals(2, before.entries());
      assertEquals(1.0, before.hitRatio());
      gerrit.strings().getIfPresent("a");
      gerrit.strings().getIfPresent("absent");
      CacheStat stat = tools(gerrit, "strings").stat();
      assertEquals(2, stat.hits());
      assertEquals(1, stat.misses());
      assertEquals(2.0 / 3, stat.hitRatio(), 0.001);
      assertEquals(128 << 20, stat.limitBytes());
      assertTrue(stat.liveBytes() > 0 && stat.diskBytes() >= stat.liveBytes(), stat.text());
      assertTrue(stat.text().contains("hit ratio 66.7 %"), stat.text());
      assertEquals(List.of("strings"), admin(gerrit).all().stream().map(CacheTools::name).toList());
    }
  }

  @Test
  void aHarmedRecordIsFoundWhileTheCacheIsInUse() throws Exception {
    try (TestGerrit gerrit = gerrit()) {
      for (int i = 0; i < 100; i++) {
        gerrit.strings().put("key " + i, "value ".repeat(50));
      }
    }
    try (Stream<Path> files = Files.walk(site.resolve("cache/refdb/strings"))) {
      Path segment = files.filter(file -> Files.isRegularFile(file) && file.toFile().length() > 20_000).findFirst().orElseThrow();
      try (FileChannel channel = FileChannel.open(segment, StandardOpenOption.WRITE)) {
        channel.write(java.nio.ByteBuffer.wrap(new byte[] {'X', 'X', 'X'}), 10_000);
      }
    }
    try (TestGerrit gerrit = gerrit()) {
      org.refdb.engine.Cache.Verified verified = tools(gerrit, "strings").verify();
      assertEquals(1, verified.bad());
      assertEquals(99, verified.good());
    }
  }

  @Test
  void compactFreesWhatIsDead() throws Exception {
    try (TestGerrit gerrit = gerrit()) {
      for (int i = 0; i < 300; i++) {
        gerrit.strings().put("same", "x".repeat(20_000));
      }
    }
    try (TestGerrit gerrit = gerrit()) {
      CacheTools tools = tools(gerrit, "strings");
      long before = tools.stat().diskBytes();
      long freed = tools.compact();
      assertTrue(freed > 0 && tools.stat().diskBytes() <= before - freed + 65536, before + " " + freed + " " + tools.stat());
      assertEquals("x".repeat(20_000), gerrit.strings().getIfPresent("same"));
    }
  }

  @Test
  void topShowsTheLargestOrTheMostUsed() {
    try (TestGerrit gerrit = gerrit()) {
      gerrit.strings().put("small", "v");
      gerrit.strings().put("large", "v".repeat(5000));
      gerrit.strings().put("middle\n", "v".repeat(500));
    }
    try (TestGerrit gerrit = gerrit()) {
      gerrit.strings().getIfPresent("small");
      CacheTools tools = tools(gerrit, "strings");
      List<CacheTools.TopEntry> largest = tools.top(2, CacheTools.Order.SIZE);
      assertEquals("large", largest.getFirst().key());
      assertEquals("6d6964646c650a", largest.get(1).key(), "no control characters on a terminal");
      List<String> used = tools.top(2, CacheTools.Order.USES).stream().map(CacheTools.TopEntry::key).toList();
      assertTrue(used.contains("small"), "besides it, the start has read one entry: " + used);
      assertThrows(IllegalArgumentException.class, () -> tools.top(0, CacheTools.Order.SIZE));
    }
  }

  @Test
  void aLongKeyIsShownAsTextWhereverItIsCut() {
    try (TestGerrit gerrit = gerrit()) {
      gerrit.strings().put("a" + "\u00e4".repeat(100), "v");
      String shown = tools(gerrit, "strings").top(1, CacheTools.Order.SIZE).getFirst().key();
      assertEquals("a" + "\u00e4".repeat(49) + "...", shown);
    }
  }

  @Test
  void keysThatAreSecretsAreNotShown() {
    try (TestGerrit gerrit = gerrit()) {
      Cache<String, String> sessions = gerrit.factory().build(TestDef.named("web_sessions"));
      sessions.put("the-cookie", "session");
      List<CacheTools.TopEntry> entries = tools(gerrit, "web_sessions").top(10, CacheTools.Order.SIZE);
      assertEquals(1, entries.size());
      assertFalse(entries.toString().contains("the-cookie"));
    }
  }

  @Test
  void anExportIsTakenByAnotherServerWhileBothRun(@TempDir Path other) {
    ByteArrayOutputStream export = new ByteArrayOutputStream();
    try (TestGerrit gerrit = gerrit()) {
      for (int i = 0; i < 2000; i++) {
        gerrit.strings().put("key " + i, "value ".repeat(i % 100));
      }
      assertEquals(2000, tools(gerrit, "strings").exportTo(export));
    }
    try (TestGerrit gerrit = new TestGerrit(
        other, TestGerrit.config(), TestGerrit.refdb(other, TestGerrit.config()), TestGerrit.strings("strings"))) {
      gerrit.strings().put("key 7", "newer");
      assertEquals(
          new org.refdb.engine.Cache.Imported(1999, 1, 0),
          tools(gerrit, "strings").importFrom(new ByteArrayInputStream(export.toByteArray())));
      assertEquals("newer", gerrit.strings().getIfPresent("key 7"));
      assertEquals("value ".repeat(99), gerrit.strings().getIfPresent("key 199"));
    }
  }

  @Test
  void aStreamThatFailsEndsAnExportAndAnImportWithItsReason() {
    try (TestGerrit gerrit = gerrit()) {
      gerrit.strings().put("key", "value".repeat(100_000));
      CacheTools tools = tools(gerrit, "strings");
      OutputStream full = new OutputStream() {
        @Override
        public void write(int b) throws IOException {
          throw new IOException("the client is gone");
        }
      };
      assertTrue(assertThrows(UncheckedIOException.class, () -> tools.exportTo(full)).getMessage().contains("client is gone"));
      InputStream broken = new InputStream() {
        @Override
        public int read() throws IOException {
          throw new IOException("the line is cut");
        }
      };
      assertTrue(assertThrows(UncheckedIOException.class, () -> tools.importFrom(broken)).getMessage().contains("line is cut"));
      InputStream nonsense = new ByteArrayInputStream("nonsense".repeat(100).getBytes(UTF_8));
      assertThrows(UncheckedIOException.class, () -> tools.importFrom(nonsense));
      assertEquals("value".repeat(100_000), gerrit.strings().getIfPresent("key"));
    }
  }

  @Test
  void secretsAreNeitherExportedNorImportedWhileInUse() {
    try (TestGerrit gerrit = gerrit()) {
      gerrit.factory().build(TestDef.named("web_sessions"));
      CacheTools tools = tools(gerrit, "web_sessions");
      ByteArrayOutputStream export = new ByteArrayOutputStream();
      assertThrows(IllegalStateException.class, () -> tools.exportTo(export));
      assertThrows(IllegalStateException.class, () -> tools.importFrom(InputStream.nullInputStream()));
      assertEquals(0, export.size());
    }
  }

  @Test
  void whereH2HasTheCachesThereIsNoneOfThis() {
    try (TestGerrit h2 =
        new TestGerrit(
            site,
            TestGerrit.config(),
            new com.google.gerrit.server.cache.h2.H2CacheModule(),
            TestGerrit.strings("strings"))) {
      assertNull(h2.injector.getInstance(Injected.class).admin);
      assertTrue(CacheAdmin.of(h2.strings()).isEmpty());
    }
  }
}

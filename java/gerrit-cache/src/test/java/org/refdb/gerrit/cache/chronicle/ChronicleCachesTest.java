package org.refdb.gerrit.cache.chronicle;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.NativeLibrary;
import org.refdb.gerrit.cache.Killed;
import org.refdb.gerrit.cache.TestGerrit;
import org.refdb.gerrit.cache.h2.OfflineCaches;
import org.refdb.gerrit.cache.h2.OfflineCaches.Outcome;
import org.refdb.gerrit.cache.store.EncryptionKeys;

/** What becomes of cache-chroniclemap's files; module chronicle-reader has the test of reading a real one. */
class ChronicleCachesTest {
  private static final int ENTRIES = 2_500;

  @TempDir Path site;
  private final Map<String, Map<String, String>> contents = new HashMap<>();
  private int opened;

  /**
   * Stands in for the reader of files: returns entries by the name of the file, and calls a file of another name
   * damaged.
   */
  private final EntryReader reader =
      (file, sink) -> {
        opened++;
        Map<String, String> entries = contents.get(file.getFileName().toString());
        if (entries == null) {
          throw new IOException("cannot read " + file + ": it is harmed");
        }
        for (Map.Entry<String, String> entry : entries.entrySet()) {
          if (!sink.take(entry.getKey().getBytes(UTF_8), entry.getValue().getBytes(UTF_8), 1_700_000_000_000L)) {
            break;
          }
        }
        return entries.size();
      };

  @BeforeAll
  static void load() throws Exception {
    NativeLibrary.load();
  }

  @BeforeEach
  void makeFolder() throws Exception {
    Files.createDirectories(directory());
  }

  private Path directory() {
    return site.resolve("cache");
  }

  private ChronicleCaches caches() {
    return new ChronicleCaches(
        directory(), cache -> new OfflineCaches.Settings(8L << 20, EncryptionKeys.NONE), (cache, done, all) -> {});
  }

  private void file(String name, int ageSeconds, Map<String, String> entries) throws IOException {
    Path path = Files.createFile(directory().resolve(name));
    Files.setLastModifiedTime(path, FileTime.fromMillis(System.currentTimeMillis() - ageSeconds * 1000L));
    contents.put(name, entries);
  }

  private static Map<String, String> strings(String value) {
    Map<String, String> entries = new HashMap<>();
    for (int i = 0; i < ENTRIES; i++) {
      entries.put("kéy " + i, value + i);
    }
    return entries;
  }

  private TestGerrit gerrit() {
    return new TestGerrit(
        site, TestGerrit.config(), TestGerrit.refdb(site, TestGerrit.config()), TestGerrit.strings("strings"));
  }

  @Test
  void theVersionWrittenLastIsTakenInPlaceOfWhatRefdbHas() throws Exception {
    try (TestGerrit gerrit = gerrit()) {
      gerrit.strings().put("older", "than ChronicleMap's");
    }
    file("strings_0.dat", 60, strings("old "));
    file("strings_1.dat", 30, strings("value "));
    Outcome outcome = caches().importAll(reader, false).getFirst();
    assertEquals(ENTRIES, outcome.entries());
    assertEquals(1, outcome.version());
    assertEquals(List.of("strings_0.dat, whose version is not in use any more"), outcome.remarks());
    assertTrue(caches().isEmpty());
    assertTrue(Files.exists(directory().resolve("strings_1-before-refdb.dat")));
    try (TestGerrit gerrit = gerrit()) {
      Cache<String, String> cache = gerrit.strings();
      assertEquals(null, cache.getIfPresent("older"));
      for (int i = 0; i < ENTRIES; i++) {
        assertEquals("value " + i, cache.getIfPresent("kéy " + i));
      }
    }
  }

  @Test
  void aDryRunSaysTheSameAndChangesNothing() throws Exception {
    file("strings_1.dat", 30, strings("value "));
    Outcome planned = caches().importAll(reader, true).getFirst();
    assertEquals(ENTRIES, planned.entries());
    assertFalse(Files.exists(directory().resolve("refdb")));
    Outcome done = caches().importAll(reader, false).getFirst();
    assertEquals(planned, done);
  }

  @Test
  void aHarmedFileIsLeftAndToldAndTheOthersAreTaken() throws Exception {
    file("strings_1.dat", 30, strings("value "));
    Files.createFile(directory().resolve("harmed_3.dat"));
    Files.createFile(directory().resolve("of another program.dat"));
    List<Outcome> outcomes = caches().importAll(reader, false);
    assertEquals(List.of("harmed", "strings"), outcomes.stream().map(Outcome::cache).toList());
    assertTrue(outcomes.get(0).failed() && outcomes.get(0).remarks().getFirst().contains("it is harmed"));
    assertFalse(outcomes.get(1).failed());
    assertTrue(Files.exists(directory().resolve("harmed_3.dat")));
    assertEquals(3, opened, "a harmed file is not opened twice");
  }

  @Test
  void aFileWhileAServerRunsIsLeft() throws Exception {
    file("strings_1.dat", 30, strings("value "));
    Killed.whileRefdbRuns(
        site,
        () -> assertThrows(OfflineCaches.InUseException.class, () -> caches().importAll(reader, false)));
    assertTrue(Files.exists(directory().resolve("strings_1.dat")));
  }
}

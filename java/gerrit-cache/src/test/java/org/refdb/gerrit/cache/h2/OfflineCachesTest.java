package org.refdb.gerrit.cache.h2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.cache.PersistentCache;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.Config;
import org.h2.Driver;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.engine.SiteLibrary;
import org.refdb.gerrit.cache.Killed;
import org.refdb.gerrit.cache.TestGerrit;
import org.refdb.gerrit.cache.store.EncryptionKeys;

/** From H2 to refdb and back while no server runs; Gerrit's own H2 caches write and read the converted files. */
class OfflineCachesTest extends H2Site {
  private static final int ENTRIES = 2500;
  private static final String KEY = Base64.getEncoder().encodeToString(new byte[32]);

  private String encryptionKey;

  OfflineCachesTest() {
    super("web_sessions");
  }

  @BeforeEach
  void loadTheLibrary() throws Exception {
    SiteLibrary.load(site.resolve("data/refdb"));
  }

  @Override
  Config config() {
    Config config = TestGerrit.config();
    if (encryptionKey != null) {
      config.setString("cache", "web_sessions", "encryptionKey", encryptionKey);
    }
    return config;
  }

  private OfflineCaches offline(OfflineCaches.Progress progress) {
    OfflineCaches.SettingsOf settings =
        cache ->
            new OfflineCaches.Settings(
                null,
                EncryptionKeys.of(cache, cache.equals("web_sessions") ? encryptionKey : null, List.of()));
    return new OfflineCaches(site.resolve("cache"), settings, progress);
  }

  private OfflineCaches offline() {
    return offline((cache, done, all) -> {});
  }

  private void fill(TestGerrit gerrit) {
    for (int i = 0; i < ENTRIES; i++) {
      gerrit.strings().put("kéy " + i, "value " + i);
    }
    objects(gerrit).put(id(1), "object");
    lists(gerrit).put("stays", new ArrayList<>(List.of("session")));
    lists(gerrit).put("ends", new ArrayList<>(List.of("session")));
  }

  private void assertHasAll(TestGerrit gerrit) throws Exception {
    for (int i = 0; i < ENTRIES; i += 17) {
      assertEquals("value " + i, gerrit.strings().getIfPresent("kéy " + i));
    }
    assertEquals("object", objects(gerrit).getIfPresent(id(1)));
    assertEquals(List.of("session"), lists(gerrit).getIfPresent("stays"));
  }

  private static OfflineCaches.Outcome of(List<OfflineCaches.Outcome> outcomes, String cache) {
    return outcomes.stream().filter(outcome -> outcome.cache().equals(cache)).findFirst().orElseThrow();
  }

  private Path own(String cache) {
    return new H2File(site.resolve("cache"), cache).own();
  }

  /** A Gerrit with H2 caches may leave such a file if it ends right after its start. */
  @Test
  void aFileWithoutATableSaysNothingOfTheKeys() throws Exception {
    Files.createDirectories(site.resolve("cache"));
    new Driver().connect(H2File.url(own("web_sessions")), new Properties()).close();
    offline().importAll(new Driver(), false);
    List<OfflineCaches.Outcome> outcomes = offline().exportAll(new Driver(), false);
    assertFalse(Files.exists(own("web_sessions")), outcomes.toString());
  }

  @Test
  void allOfH2IsThereAtTheFirstStartWithItsAges() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    List<OfflineCaches.Outcome> outcomes = offline().importAll(new Driver(), false);
    assertEquals(ENTRIES, of(outcomes, "strings").entries());
    assertTrue(of(outcomes, "strings").bytes() > ENTRIES * 10);
    assertEquals(2, of(outcomes, "web_sessions").entries());
    assertFalse(Files.exists(own("strings")));
    now.addAndGet(Duration.ofHours(11).toMillis());
    try (TestGerrit gerrit = refdb(1)) {
      assertEquals(ENTRIES, ((PersistentCache) gerrit.strings()).diskStats().size(), "nothing is left to import");
      assertHasAll(gerrit);
      now.addAndGet(Duration.ofHours(1).toMillis());
      assertNull(gerrit.strings().getIfPresent("kéy 1"), "twelve hours old, though taken over an hour ago");
    }
  }

  @Test
  void aDryRunTellsTheSameAndChangesNothing() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    List<OfflineCaches.Outcome> planned = offline().importAll(new Driver(), true);
    assertTrue(Files.exists(own("strings")) && !Files.exists(site.resolve("cache/refdb")));
    assertEquals(planned, offline().importAll(new Driver(), false));
    List<OfflineCaches.Outcome> back = offline().exportAll(new Driver(), true);
    assertFalse(Files.exists(own("strings")));
    assertEquals(back, offline().exportAll(new Driver(), false));
    assertEquals(planned, back);
  }

  @Test
  void olderVersionsAreSkippedAndCounted() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    now.addAndGet(1000);
    try (TestGerrit h2 = h2(2)) {
      h2.strings().put("new", "version");
    }
    OfflineCaches.Outcome outcome = of(offline().importAll(new Driver(), false), "strings");
    assertEquals(2, outcome.version());
    assertEquals(1, outcome.entries());
    assertTrue(outcome.remarks().toString().contains(ENTRIES + " entries of version 1"), outcome.toString());
    try (TestGerrit gerrit = refdb(2)) {
      assertEquals("version", gerrit.strings().getIfPresent("new"));
      assertNull(gerrit.strings().getIfPresent("kéy 1"));
    }
  }

  @Test
  void anImportThatIsCutShortBeginsAnewAndNeverIsHalfACache() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    OfflineCaches cut =
        offline(
            (cache, done, all) -> {
              throw new IllegalStateException("the plug is pulled");
            });
    assertThrows(IllegalStateException.class, () -> cut.importAll(new Driver(), false));
    assertTrue(Files.exists(own("strings")), "H2 still has it");
    try (TestGerrit h2 = h2(1)) {
      assertEquals("value 2499", h2.strings().getIfPresent("kéy 2499"));
      h2.strings().invalidate("kéy 0");
    }
    assertEquals(ENTRIES - 1, of(offline().importAll(new Driver(), false), "strings").entries());
    try (TestGerrit gerrit = refdb(1)) {
      assertNull(gerrit.strings().getIfPresent("kéy 0"));
      assertEquals("value 17", gerrit.strings().getIfPresent("kéy 17"));
    }
  }

  /** A Gerrit of the other version would serve what refdb had stored before. */
  @Test
  void anImportThatIsGoneOnWithAlsoRemovesOtherVersions() throws Exception {
    try (TestGerrit gerrit = refdb(2)) {
      fill(gerrit);
    }
    beginAsAServer();
    offline().importAll(new Driver(), false);
    assertFalse(Files.exists(site.resolve("cache/refdb/strings/v2")));
  }

  /** Leaves an import of "strings" as a server does that is stopped after one key was changed. */
  private void beginAsAServer() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    beginAsAServer(new H2File(site.resolve("cache"), "strings"));
  }

  private static void beginAsAServer(H2File file) throws Exception {
    try (ChangedKeys changed = ChangedKeys.create(file.changedKeys())) {
      changed.add("kéy 17".getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }
    file.move(file.own(), file.importing());
  }

  @Test
  void whatAServerBeganIsGoneOnWith() throws Exception {
    beginAsAServer();
    OfflineCaches.Outcome outcome = of(offline().importAll(new Driver(), false), "strings");
    assertEquals(ENTRIES - 1, outcome.entries());
    assertTrue(outcome.remarks().toString().contains("1 entries that were changed"), outcome.toString());
    try (TestGerrit gerrit = refdb(1)) {
      assertNull(gerrit.strings().getIfPresent("kéy 17"));
      assertEquals("value 34", gerrit.strings().getIfPresent("kéy 34"));
    }
  }

  /** Previously, the newest version in the H2 file was taken, and what the server had stored was removed. */
  @Test
  void whatAServerOfAnOlderVersionBeganIsGoneOnWithInItsVersion() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    now.addAndGet(1000);
    try (TestGerrit h2 = h2(2)) {
      h2.strings().put("new", "version");
    }
    H2File file = new H2File(site.resolve("cache"), "strings");
    Path aside = Files.move(file.own(), site.resolve("cache/elsewhere"));
    try (TestGerrit gerrit = refdb(1)) {
      gerrit.strings().put("kéy 17", "of the server");
    }
    Files.move(aside, file.own());
    beginAsAServer(file);
    assertEquals(1, of(offline().importAll(new Driver(), false), "strings").version());
    try (TestGerrit gerrit = refdb(1)) {
      assertEquals("of the server", gerrit.strings().getIfPresent("kéy 17"));
      assertEquals("value 34", gerrit.strings().getIfPresent("kéy 34"));
    }
  }

  @Test
  void nothingIsDoneWhileAServerUsesTheCaches() throws Exception {
    Killed.whileH2Runs(
        site,
        () -> {
          IOException refusal =
              assertThrows(OfflineCaches.InUseException.class, () -> offline().importAll(new Driver(), false));
          assertTrue(refusal.getMessage().contains("stop"), refusal.getMessage());
          assertTrue(Files.exists(own("strings")));
          Files.createDirectories(site.resolve("cache/refdb/strings"));
          assertThrows(OfflineCaches.InUseException.class, () -> offline().exportAll(new Driver(), false));
        });
    Files.delete(own("strings"));
    Killed.whileRefdbRuns(
        site,
        () -> {
          assertThrows(OfflineCaches.InUseException.class, () -> offline().exportAll(new Driver(), false));
          assertThrows(OfflineCaches.InUseException.class, () -> offline().wipe(false, any -> {}));
        });
  }

  @Test
  void gerritsOwnH2UsesWhatIsExportedWithItsAges() throws Exception {
    try (TestGerrit gerrit = refdb(1)) {
      fill(gerrit);
    }
    List<OfflineCaches.Outcome> outcomes = offline().exportAll(new Driver(), false);
    assertEquals(ENTRIES, of(outcomes, "strings").entries());
    try (Stream<Path> files = Files.list(site.resolve("cache"))) {
      for (Path file : files.filter(file -> file.toString().endsWith(".mv.db")).toList()) {
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)), file::toString);
      }
    }
    now.addAndGet(Duration.ofHours(11).toMillis());
    try (TestGerrit h2 = h2(1)) {
      assertHasAll(h2);
      assertEquals(ENTRIES, ((PersistentCache) h2.strings()).diskStats().size());
      h2.strings().invalidate("kéy 2");
      h2.strings().put("kéy 3", "changed in H2");
      now.addAndGet(Duration.ofHours(2).toMillis());
      assertNull(h2.strings().getIfPresent("kéy 4"), "thirteen hours old");
      assertEquals("object", objects(h2).getIfPresent(id(1)), "has no age");
    }
    try (TestGerrit gerrit = refdb(1)) {
      assertNull(gerrit.strings().getIfPresent("kéy 2"), "H2 had the caches since");
    }
  }

  @Test
  void anExportDoesNotReplaceWhatH2HasChangedSinceTheLastOne() throws Exception {
    try (TestGerrit gerrit = refdb(1)) {
      fill(gerrit);
    }
    offline().exportAll(new Driver(), false);
    assertEquals(2, of(offline().exportAll(new Driver(), false), "web_sessions").entries(), "H2 has changed nothing");
    try (TestGerrit h2 = h2(1)) {
      lists(h2).invalidate("ends");
    }
    for (boolean dryRun : new boolean[] {true, false}) {
      OfflineCaches.Outcome refused = of(offline().exportAll(new Driver(), dryRun), "web_sessions");
      assertTrue(refused.failed(), refused.toString());
      assertTrue(refused.remarks().getFirst().contains("delete " + own("web_sessions")), refused.toString());
    }
    try (TestGerrit h2 = h2(1)) {
      assertNull(lists(h2).getIfPresent("ends"));
    }
    Files.delete(own("web_sessions"));
    assertEquals(2, of(offline().exportAll(new Driver(), false), "web_sessions").entries());
  }

  /** The H2 files that stayed since the switch still have the session that refdb's server ended. */
  @Test
  void aSessionThatWasEndedDoesNotReviveOnceH2HasTheCachesAgain() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    offline().importAll(new Driver(), false);
    try (TestGerrit gerrit = refdb(1)) {
      lists(gerrit).invalidate("ends");
    }
    assertTrue(Files.exists(new H2File(site.resolve("cache"), "web_sessions").aside()), "the old file is still there");
    // The lines are removed from gerrit.config, nothing else is done.
    try (TestGerrit h2 = h2(1)) {
      assertNull(lists(h2).getIfPresent("ends"));
    }
    Files.delete(own("web_sessions"));
    // The caches are exported.
    offline().exportAll(new Driver(), false);
    try (TestGerrit h2 = h2(1)) {
      assertNull(lists(h2).getIfPresent("ends"));
      assertEquals(List.of("session"), lists(h2).getIfPresent("stays"));
    }
    Files.delete(own("web_sessions"));
    // The caches are wiped.
    assertTrue(offline().wipe(false, any -> {}) > 0);
    try (TestGerrit h2 = h2(1)) {
      assertNull(lists(h2).getIfPresent("ends"));
      assertNull(lists(h2).getIfPresent("stays"));
    }
    try (Stream<Path> files = Files.list(site.resolve("cache"))) {
      assertEquals(List.of(), files.filter(file -> !file.toString().endsWith("-v2.mv.db")).toList());
    }
  }

  /** Previously, the first foreign file ended the command, and the caches after it stayed. */
  @Test
  void whatIsForeignIsNamedAndAllElseIsWiped() throws Exception {
    try (TestGerrit gerrit = refdb(1)) {
      fill(gerrit);
    }
    Path refdb = site.resolve("cache/refdb");
    List<Path> foreign =
        List.of(
            Files.writeString(refdb.resolve("mine"), "not refdb's"),
            Files.createDirectory(refdb.resolve("my notes")),
            Files.writeString(refdb.resolve("strings/mine"), "not refdb's"),
            Files.createDirectory(refdb.resolve("strings/notes")),
            Files.writeString(refdb.resolve("strings/v1/mine"), "not refdb's"),
            Files.createDirectory(refdb.resolve("strings/v1/notes")));
    List<Path> planned = new ArrayList<>();
    long freed = offline().wipe(true, planned::add);
    assertEquals(foreign, planned.stream().sorted().toList());
    List<Path> left = new ArrayList<>();
    assertEquals(freed, offline().wipe(false, left::add));
    assertEquals(foreign, left.stream().sorted().toList());
    try (Stream<Path> all = Files.walk(refdb)) {
      assertEquals(3, all.filter(Files::isRegularFile).count());
    }
  }

  /** Previously, such a folder ended the command, and the caches after it stayed. */
  @Test
  void aForeignFolderWhoseLockCannotBeTakenIsNamedAndAllElseIsWiped() throws Exception {
    try (TestGerrit gerrit = refdb(1)) {
      fill(gerrit);
    }
    Path foreign = Files.createDirectories(site.resolve("cache/refdb/objects/v7/lock"));
    List<Path> left = new ArrayList<>();
    assertTrue(offline().wipe(false, left::add) > 0);
    assertEquals(List.of(foreign), left);
    assertFalse(Files.exists(site.resolve("cache/refdb/strings")));
  }

  /** Previously, such a folder ended the command, and no cache was imported. */
  @Test
  void aForeignFolderWhoseLockCannotBeTakenIsToldAndAllElseIsImported() throws Exception {
    try (TestGerrit gerrit = refdb(2)) {
      fill(gerrit);
    }
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    Files.createDirectories(site.resolve("cache/refdb/objects/v7/lock"));
    List<OfflineCaches.Outcome> outcomes = offline().importAll(new Driver(), false);
    assertEquals(ENTRIES, of(outcomes, "strings").entries());
    assertEquals(1, of(outcomes, "objects").entries());
    assertTrue(of(outcomes, "objects").remarks().toString().contains("objects/v7/lock"), outcomes.toString());
    assertFalse(Files.exists(site.resolve("cache/refdb/objects/v2")));
  }

  /** Previously, a Gerrit of the other version served what refdb had stored before. */
  @Test
  void anImportAlsoReplacesWhatRefdbHasOfAnotherVersion() throws Exception {
    try (TestGerrit gerrit = refdb(1)) {
      fill(gerrit);
    }
    try (TestGerrit h2 = h2(2)) {
      fill(h2);
    }
    offline().importAll(new Driver(), false);
    Path strings = site.resolve("cache/refdb/strings");
    assertTrue(Files.exists(strings.resolve("v2")));
    assertFalse(Files.exists(strings.resolve("v1")));
  }

  @Test
  void aSessionThatWasEndedWhileTheFilesCouldNotBeUsedDoesNotReviveInH2() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    encryptionKey = "this is no key";
    try (TestGerrit gerrit = refdb(1)) {
      lists(gerrit).invalidate("ends"); // in memory only
    }
    encryptionKey = null;
    try (TestGerrit h2 = h2(1)) {
      assertNull(lists(h2).getIfPresent("ends"));
    }
  }

  @Test
  void sessionsAreEncryptedOnTheirWayInAndOpenedOnTheirWayOut() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    encryptionKey = KEY;
    offline().importAll(new Driver(), false);
    try (Stream<Path> files = Files.walk(site.resolve("cache/refdb/web_sessions"))) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        assertFalse(Files.readString(file, java.nio.charset.StandardCharsets.ISO_8859_1).contains("stays"), file.toString());
      }
    }
    encryptionKey = Base64.getEncoder().encodeToString(new byte[] {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9});
    assertTrue(of(offline().exportAll(new Driver(), true), "web_sessions").failed(), "with a wrong key");
    encryptionKey = KEY;
    assertEquals(2, of(offline().exportAll(new Driver(), false), "web_sessions").entries(), "and the wrong key emptied nothing");
    try (TestGerrit h2 = h2(1)) {
      assertHasAll(h2);
    }
  }

  @Test
  void oldFilesGoWhenAskedAndNothingElse() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    offline().importAll(new Driver(), false);
    long size = Files.size(new H2File(site.resolve("cache"), "strings").aside());
    assertTrue(offline().deleteOldH2Files(true) > size);
    assertTrue(offline().deleteOldH2Files(false) > size);
    assertEquals(0, offline().deleteOldH2Files(false));
    try (TestGerrit gerrit = refdb(1)) {
      assertHasAll(gerrit);
    }
  }

  @Test
  void aHarmedH2FileIsLeftWhereItIsAndTold() throws Exception {
    try (TestGerrit h2 = h2(1)) {
      fill(h2);
    }
    Files.writeString(own("objects"), "not a database");
    List<OfflineCaches.Outcome> outcomes = offline().importAll(new Driver(), false);
    assertTrue(of(outcomes, "objects").failed());
    assertEquals(ENTRIES, of(outcomes, "strings").entries());
    assertTrue(Files.exists(own("objects")));
  }
}

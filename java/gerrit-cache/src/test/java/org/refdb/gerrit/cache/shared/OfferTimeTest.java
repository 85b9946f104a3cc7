package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.cache.store.CacheFolder;

class OfferTimeTest {
  private static final long SKEW_MILLIS = 60_000;
  private static final long NOTED = 5_000_000;
  private static final String FIRST = "7000000.8000000";
  private static final String FLUSHED = "7000000.9000001";

  @TempDir Path root;
  private CacheFolder folder;

  @BeforeEach
  void makeFolder() throws IOException {
    folder = CacheFolder.of(root, "fleet");
    Files.createDirectories(folder.path());
  }

  private OfferTime opened(String context) {
    OfferTime time = new OfferTime(folder, 1, context);
    time.opened();
    return time;
  }

  private void note(String text) throws IOException {
    folder.note(1, "offers", text);
  }

  private static void assertIsNow(OfferTime time, String generation) {
    long from = time.fromMillis(generation) - SKEW_MILLIS;
    assertTrue(Math.abs(System.currentTimeMillis() - from) < 30_000, "it is " + from);
  }

  @Test
  void aCacheWithoutFilesOffersWhatItHasUntilAFlush() {
    OfferTime time = new OfferTime(null, 1, "c");
    assertEquals(SKEW_MILLIS, time.fromMillis(FIRST));
    assertEquals(9_000_001 + SKEW_MILLIS, time.fromMillis(FLUSHED));
  }

  /** Previously, such a process replaced the note, so that nothing from before the next start was offered. */
  @Test
  void aProcessThatCouldNotOpenTheFilesLeavesTheirNoteAlone() throws IOException {
    note("c " + NOTED + " " + FIRST + " 0");
    assertEquals(Long.MAX_VALUE, new OfferTime(folder, 1, "c").fromMillis(FIRST));
    assertEquals(NOTED + SKEW_MILLIS, opened("c").fromMillis(FIRST));
  }

  @Test
  void filesOfUnknownOriginAreOfferedFromTheirNoteOn() {
    assertEquals(Long.MAX_VALUE, new OfferTime(folder, 1, "c").fromMillis(FIRST), "they were not opened");
    assertIsNow(opened("c"), FIRST);
  }

  @Test
  void theTimeOfTheNoteHoldsWhileValuesDependOnTheSame() throws IOException {
    note("c " + NOTED + " - 0");
    assertEquals(NOTED + SKEW_MILLIS, opened("c").fromMillis(FIRST));
    assertEquals(NOTED + SKEW_MILLIS, opened("c").fromMillis(FIRST), "the same generation after a restart");
    assertIsNow(opened("d"), FIRST);
    assertIsNow(opened("c"), FIRST);
  }

  /** Otherwise values from before a flush that the server has forgotten would be offered. */
  @Test
  void aFirstGenerationAfterAnotherOneCountsAsAFlush() throws IOException {
    note("c " + NOTED + " 6000000.6000000 0");
    assertEquals(8_000_000 + SKEW_MILLIS, opened("c").fromMillis(FIRST));
    assertEquals(8_000_000 + SKEW_MILLIS, opened("c").fromMillis(FIRST), "after a restart too");
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "c", "c 5 -", "c x - 0", "c 5 - -1", "c 5 - 0 0", "c 9999999999999999999 - 0"})
  void aDamagedNoteIsNone(String text) throws IOException {
    note(text);
    assertIsNow(opened("c"), FIRST);
  }

  @Test
  void aFirstGenerationIsToldFromThatOfAFlush() {
    assertTrue(Generations.isFirst(FIRST));
    assertFalse(Generations.isFirst(FLUSHED));
    assertFalse(Generations.isFirst("7000001.8000000"));
  }
}

package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What Java's flight recorder is told of look-ups in the disk tier. */
class CacheAccessTest {
  @TempDir Path site;

  private TestGerrit start() {
    return new TestGerrit(
        site, TestGerrit.config(), TestGerrit.refdb(site, TestGerrit.config()), TestGerrit.strings("strings"));
  }

  private List<RecordedEvent> record(boolean enabled, Runnable work) throws Exception {
    try (Recording recording = new Recording()) {
      if (enabled) {
        recording.enable(CacheAccess.NAME);
      }
      recording.start();
      work.run();
      recording.stop();
      Path file = site.resolve("recording.jfr");
      recording.dump(file);
      return RecordingFile.readAllEvents(file).stream()
          .filter(event -> event.getEventType().getName().equals(CacheAccess.NAME))
          .toList();
    }
  }

  @Test
  void aLookUpHasItsKeysHashAndItsValuesSize() throws Exception {
    try (TestGerrit gerrit = start()) {
      gerrit.strings().put("key", "value");
    }
    try (TestGerrit gerrit = start()) {
      List<RecordedEvent> events =
          record(
              true,
              () -> {
                assertEquals("value", gerrit.strings().getIfPresent("key"));
                assertNull(gerrit.strings().getIfPresent("absent"));
                assertNull(gerrit.strings().getIfPresent("absent"));
              });
      assertEquals(List.of(5, 0, 0), events.stream().map(event -> event.getInt("bytes")).toList());
      assertEquals(List.of(true, false, false), events.stream().map(event -> event.getBoolean("found")).toList());
      assertNotEquals(events.get(0).getLong("key"), events.get(1).getLong("key"));
      assertEquals(events.get(1).getLong("key"), events.get(2).getLong("key"));
      assertTrue(events.stream().allMatch(event -> event.getLong("storeNanos") > 0));
    }
  }

  @Test
  void nothingIsRecordedUnlessItIsAskedForByName() throws Exception {
    try (TestGerrit gerrit = start()) {
      assertEquals(List.of(), record(false, () -> assertNull(gerrit.strings().getIfPresent("absent"))));
    }
  }
}

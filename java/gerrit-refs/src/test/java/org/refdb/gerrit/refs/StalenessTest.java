package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

final class StalenessTest {
  @Test
  void answersThatAComparisonFailedToCheckAreNotForgottenInAPause() {
    Staleness staleness = new Staleness(0);
    assertTrue(staleness.wasUsedAt(1, 10));
    staleness.skipped(20);
    assertFalse(staleness.wasUsedAt(1, 30));
    assertTrue(staleness.wasUsedAt(2, 40));
    staleness.skipped(50);
    staleness.looked(50, 60, 1);
    assertEquals(Duration.ofNanos(60), staleness.lastStaleAtMost());
    assertFalse(staleness.wasUsedAt(2, 70));
    assertTrue(staleness.wasUsedAt(3, 80));
    staleness.looked(90, 100, 1);
    assertEquals(Duration.ofNanos(30), staleness.lastStaleAtMost());
  }
}

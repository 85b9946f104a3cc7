package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class SharedStatusTest {
  /** What an administrator is told must not be a guess. */
  @Test
  void whatTheServerDoesNotTellIsUnknown() {
    assertEquals("aof", SharedStatus.persistence("1", "unknown"));
    assertEquals("rdb", SharedStatus.persistence("0", "3"));
    assertEquals("none so far", SharedStatus.persistence("0", "0"));
    assertEquals("unknown", SharedStatus.persistence("0", "unknown"));
    assertEquals("unknown", SharedStatus.persistence("unknown", "unknown"));
  }
}

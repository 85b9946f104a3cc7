package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The limits of what a request waits, and the settings. */
class LimitsTest {
  private static final long MILLI = 1_000_000;

  @Test
  void aThreadWaitsAtMostTwentyOfAnyHundredMilliseconds() {
    AtomicLong now = new AtomicLong(5_000 * MILLI);
    Budget budget = new Budget(20 * MILLI, now::get);
    long[] waits = new long[1000];
    for (int millis = 0; millis < waits.length; millis++) {
      long wait = Math.min(2 * MILLI, budget.left());
      if (wait > 0) {
        budget.waited(wait);
        waits[millis] = wait;
      }
      now.addAndGet(MILLI);
    }
    for (int from = 0; from + 100 < waits.length; from++) {
      long sum = 0;
      for (int at = from; at < from + 100; at++) {
        sum += waits[at];
      }
      assertTrue(sum <= 20 * MILLI, sum + " from " + from);
    }
    assertTrue(waits[999] > 0 || waits[950] > 0 || budget.left() <= 0, "it is given again");
    now.addAndGet(200 * MILLI);
    assertEquals(20 * MILLI, budget.left());
  }

  /** A breaker, and a clock that only the test moves. */
  private static final class Timed {
    final AtomicLong now = new AtomicLong();
    final Breaker breaker = new Breaker(now::get);

    /** Gives up {@code times} answers one after the other. */
    void late(int times) {
      for (int i = 0; i < times; i++) {
        now.addAndGet(2 * MILLI);
        breaker.late();
      }
    }

    /** Lets a number of probes succeed within a moment. */
    void probe(int times) {
      for (int i = 0; i < times; i++) {
        breaker.probed(true);
      }
    }

    /** Returns how many seconds the open breaker stays open while all probes succeed. */
    long secondsUntilClosed() {
      long from = now.get();
      while (breaker.isOpen()) {
        now.addAndGet(50 * MILLI);
        probe(1);
      }
      return Math.round((now.get() - from) / 1e9);
    }
  }

  @Test
  void lateAnswersInARowOpenTheBreakerAndOnlyProbesCloseIt() {
    Timed timed = new Timed();
    assertTrue(timed.breaker.isOpen(), "nothing is known yet");
    timed.probe(3);
    assertFalse(timed.breaker.isOpen());
    timed.late(3);
    assertFalse(timed.breaker.isOpen());
    timed.late(1);
    assertTrue(timed.breaker.isOpen());
    for (int i = 0; i < 10; i++) {
      timed.breaker.inTime();
      timed.probe(1);
    }
    assertTrue(timed.breaker.isOpen(), "it has not been open for long enough");
  }

  @Test
  void aServerThatComesAndGoesIsLeftAloneForLongerAndOneThatIsLateNowAndThenIsNot() {
    Timed timed = new Timed();
    timed.probe(3);
    for (long seconds : new long[] {2, 4, 8, 16, 32, 60, 60}) {
      timed.late(4);
      assertEquals(seconds, timed.secondsUntilClosed());
    }
    for (int i = 0; i < 5; i++) {
      timed.now.addAndGet(i == 0 ? 61_000 * MILLI : 1_100 * MILLI);
      timed.late(4);
      assertEquals(1, timed.secondsUntilClosed());
    }
  }

  @Test
  void aSlowServerIsWaitedForUpToTheDeadlineAndAFastOneLess() {
    Patience patience = new Patience(2 * MILLI);
    assertEquals(2 * MILLI, patience.nanos());
    for (int i = 0; i < 5_000; i++) {
      patience.answered(200_000);
    }
    assertEquals(MILLI, patience.nanos());
    patience.late();
    assertEquals(2 * MILLI, patience.nanos());
    for (int i = 0; i < 5_000; i++) {
      patience.answered(200_000);
    }
    for (int i = 0; i < 100; i++) {
      patience.answered(1_500_000);
    }
    assertEquals(2 * MILLI, patience.nanos());
  }

  private static SharedSettings settings(String address) {
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", address);
    return SharedSettings.of(config, Path.of("site"));
  }

  @Test
  void addressesHaveThreeForms() {
    assertEquals(ServerAddress.Kind.SERVER, settings("redis://a:1,b:2").address().kind());
    assertEquals(2, settings("redis://a:1,b:2").address().hosts().size());
    assertEquals("main", settings("redis-sentinel://a:1/main").address().master());
    assertEquals(ServerAddress.Kind.CLUSTER, settings("redis-cluster://[::1]:1").address().kind());
    assertEquals("::1", settings("redis-cluster://[::1]:1").address().hosts().getFirst().getHost());
    assertTrue(settings("rediss://a:1").address().tls());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "redis://a", "a:1", "ftp://a:1", "redis://user:secret@a:1", "redis-sentinel://a:1", "redis://a:1/main",
        "redis://a:x",
        "redis://:1", "redis://a:70000", "x-redis://a:1"
      })
  void otherAddressesAreRefusedAndNotQuoted(String address) {
    IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> settings(address));
    assertFalse(e.getMessage().contains("secret"));
  }

  @Test
  void aWrongKeyIsRefusedAndNotQuoted() {
    Config config = new Config();
    config.setString("gerrit", null, "serverId", "site");
    config.setString("cache", null, "refdbShared", "redis://a:1");
    config.setString("cache", null, "refdbSharedKey", "c2VjcmV0");
    IllegalArgumentException e =
        assertThrows(IllegalArgumentException.class, () -> SharedSettings.of(config, Path.of("site")));
    assertFalse(e.getMessage().contains("c2VjcmV0"));
  }
}

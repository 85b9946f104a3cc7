package org.refdb.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class HandleTest {
  @Test
  void closingTwiceClosesOnce() {
    AtomicInteger closed = new AtomicInteger();
    Handle handle = new Handle(7, id -> closed.incrementAndGet());
    handle.close();
    handle.close();
    assertEquals(1, closed.get());
  }

  @Test
  void aForgottenHandleIsClosedAndCounted() throws InterruptedException {
    long before = Handle.forgotten();
    CountDownLatch closed = new CountDownLatch(1);
    forget(closed);
    for (int i = 0; i < 600 && !closed.await(100, TimeUnit.MILLISECONDS); i++) {
      System.gc();
    }
    assertEquals(0, closed.getCount(), "never collected");
    assertEquals(before + 1, Handle.forgotten());
  }

  private static void forget(CountDownLatch closed) {
    assertEquals(7, new Handle(7, id -> closed.countDown()).id());
  }

  @Test
  void noHandleIsNull() {
    assertThrows(IllegalArgumentException.class, () -> new Handle(0, id -> {}));
  }

  @Test
  void aPanicInTheEngineIsAnException() throws Exception {
    NativeLibrary.load();
    for (int i = 0; i < 3; i++) {
      EngineException bug = assertThrows(EngineException.class, () -> TestHooks.panic("ouch é".getBytes("UTF-8")));
      assertEquals(EngineException.Kind.BUG, bug.kind());
      assertTrue(bug.getMessage().contains("ouch é"), bug.getMessage());
    }
  }
}

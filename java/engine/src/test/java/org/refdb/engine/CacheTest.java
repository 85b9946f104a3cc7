package org.refdb.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.Cache.Durability;

class CacheTest {
  @TempDir Path folder;

  @BeforeAll
  static void load() throws Exception {
    NativeLibrary.load();
  }

  private Cache open() throws EngineException {
    return Cache.open(new Cache.Options(folder, "test", 1, 16 << 20, null, null, List.of()));
  }

  private static byte[] bytes(int length, long seed) {
    byte[] bytes = new byte[length];
    new Random(seed).nextBytes(bytes);
    return bytes;
  }

  @Test
  void keysAndValuesOfEverySizeComeBackWithTheirTime() throws Exception {
    try (Cache cache = open()) {
      int room = Exchange.BYTES - 8;
      int[] sizes = {0, 1, 7, 100, 16_384, 16_385, room - 101, room - 100, room - 99, room + 8 - 100, room + 8 - 99,
          room, 40_000, 1 << 20};
      for (int keySize : new int[] {0, 1, 100, room - 1, room, room + 1, room + 8, room + 9, 100_000}) {
        for (int size : sizes) {
          byte[] key = bytes(keySize, 31L * keySize + size);
          byte[] value = bytes(size, size);
          assertNull(cache.get(key));
          assertTrue(cache.put(key, value, 1_700_000_000_000L + size, Durability.BUFFERED));
          Cache.Found found = cache.get(key);
          assertArrayEquals(value, found.value(), keySize + " " + size);
          assertEquals(1_700_000_000_000L + size, found.createdMillis());
          assertTrue(cache.remove(key, Durability.BUFFERED));
          assertFalse(cache.remove(key, Durability.BUFFERED));
          assertNull(cache.get(key));
        }
      }
    }
  }

  @Test
  void aValueTooLargeForTheCacheIsRefusedAndTheOlderOneGoes() throws Exception {
    try (Cache cache = open()) {
      byte[] key = bytes(20, 1);
      assertTrue(cache.put(key, bytes(10, 2), 1, Durability.WRITTEN));
      assertFalse(cache.put(key, new byte[3 << 20], 1, Durability.WRITTEN));
      assertNull(cache.get(key));
    }
  }

  @Test
  void aClosedCacheIsAnExceptionForShortAndLong() throws Exception {
    Cache cache = open();
    cache.close();
    for (int size : new int[] {10, Exchange.BYTES + 1}) {
      assertThrows(ClosedHandleException.class, () -> cache.get(new byte[size]));
      assertThrows(
          ClosedHandleException.class, () -> cache.put(new byte[size], new byte[size], 1, Durability.BUFFERED));
      assertThrows(ClosedHandleException.class, () -> cache.remove(new byte[size], Durability.BUFFERED));
    }
  }

  @Test
  void closingWhileThreadsUseItGivesAnswersOrExceptions() throws Exception {
    for (int round = 0; round < 20; round++) {
      Cache cache = open();
      try (ExecutorService pool = Executors.newFixedThreadPool(3)) {
        List<Future<?>> users =
            IntStream.range(0, 3).<Future<?>>mapToObj(thread -> pool.submit(() -> use(cache, thread))).toList();
        Thread.sleep(5);
        cache.close();
        for (Future<?> user : users) {
          user.get();
        }
      }
    }
  }

  private static Void use(Cache cache, int thread) throws Exception {
    try {
      for (int i = 0; ; i = (i + 1) % 100) {
        byte[] key = ByteBuffer.allocate(8).putInt(thread).putInt(i).array();
        byte[] value = bytes(i * 400, i);
        cache.put(key, value, i, Durability.BUFFERED);
        Cache.Found found = cache.get(key);
        if (found != null && !Arrays.equals(value, found.value())) {
          throw new AssertionError("another value");
        }
      }
    } catch (ClosedHandleException | EngineException closed) {
      return null;
    }
  }

  @Test
  void aGetAllocatesTheValuesArrayOnly() throws Exception {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    int gets = 1_000;
    try (Cache cache = open()) {
      for (int size : new int[] {0, 1_000, 60_000, Exchange.BYTES, 200_000}) {
        byte[] key = bytes(20, size);
        assertTrue(cache.put(key, bytes(size, 1), 1, Durability.BUFFERED));
        assertEquals(size, cache.get(key).value().length);
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int i = 0; i < gets; i++) {
          cache.get(key, READ_ONLY);
        }
        long each = (threads.getCurrentThreadAllocatedBytes() - before) / gets;
        assertEquals(16 + (size + 7) / 8 * 8, each, "a value of " + size);
      }
    }
  }

  private static final Cache.Reader<byte[]> READ_ONLY = (value, createdMillis) -> value;

  @Test
  void onlyABufferOfTheRightSizeOutsideOfTheHeapHasAnAddress() {
    ByteBuffer[] wrongs = {ByteBuffer.allocateDirect(10), ByteBuffer.allocate(Exchange.BYTES), null};
    for (ByteBuffer wrong : wrongs) {
      EngineException bug = assertThrows(EngineException.class, () -> CacheNatives.addressOf(wrong));
      assertEquals(EngineException.Kind.BUG, bug.kind());
    }
  }
}

package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What reading an entry from the disk tier leaves to the garbage collector. */
class AllocationTest {
  private static final int READS = 2_000;

  /** The most bytes for a read, beyond the arrays that Gerrit's serializers make and take. */
  private static final int BYTES_MAX = 48;

  private static final int ARRAY_HEADER_BYTES = 16;

  @TempDir Path site;

  /** Makes no objects but the array that {@link #serialize} returns. */
  private enum OneText implements CacheSerializer<String> {
    INSTANCE;

    @Override
    public byte[] serialize(String text) {
      return new byte[text.length()];
    }

    @Override
    public String deserialize(byte[] bytes) {
      return "";
    }
  }

  @Test
  void aReadAllocatesAHolderAndNothingElse() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    TestDef def = TestDef.named("small").withSerializer(OneText.INSTANCE);
    try (TestGerrit gerrit =
        new TestGerrit(
            site,
            TestGerrit.config(),
            TestGerrit.refdb(site, TestGerrit.config()),
            TestGerrit.strings("strings"))) {
      @SuppressWarnings("unchecked")
      DiskTier<String, String> disk = ((DiskCache<String, String>) gerrit.factory().build(def)).disk();
      for (int length : new int[] {0, 1_000, 50_000, 200_000}) {
        String key = "12345678";
        disk.put(key, "v".repeat(length));
        assertNotNull(disk.read(key)); // also makes what only a thread's first read makes
        long keyBytes = ARRAY_HEADER_BYTES + key.length();
        long valueBytes = ARRAY_HEADER_BYTES + length;
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int i = 0; i < READS; i++) {
          disk.read(key);
        }
        long each = (threads.getCurrentThreadAllocatedBytes() - before) / READS - keyBytes - valueBytes;
        assertTrue(each <= BYTES_MAX, each + " bytes with a value of " + length);
      }
    }
  }
}

package org.refdb.gerrit.cache.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.NativeLibrary;

/** What a program that only reads finds, as {@code reindex --disk-cache-read-only} is one. */
class NativeOpenerTest {
  private static final byte[] KEY = {1};
  private static final byte[] VALUE = {2};

  @TempDir Path folder;
  private final NativeOpener opener = new NativeOpener();

  @BeforeEach
  void loadTheLibrary() throws Exception {
    NativeLibrary.load(folder.resolve("native"), "choose");
  }

  private static String key(int filler) {
    byte[] key = new byte[32];
    Arrays.fill(key, (byte) filler);
    return Base64.getEncoder().encodeToString(key);
  }

  private StoreOpener.Spec spec(int version, String key, String... old) {
    return new StoreOpener.Spec(folder, "c", version, 1 << 20, null, EncryptionKeys.of("c", key, List.of(old)), true);
  }

  private byte[] read(StoreOpener.Spec spec) throws IOException {
    try (Store store = opener.openToRead(spec)) {
      return store.get(KEY, (value, created) -> value);
    }
  }

  private void write(StoreOpener.Spec spec) throws IOException {
    try (Store store = opener.open(spec)) {
      store.put(KEY, VALUE, 1, true);
    }
  }

  /** After an upgrade of Gerrit there may be files of an older version only, which is no reason to log an error. */
  @Test
  void anotherVersionIsAnEmptyCache() throws Exception {
    write(spec(1, null));
    assertEquals(VALUE[0], read(spec(1, null))[0]);
    assertNull(read(spec(2, null)));
  }

  /** The files have the old key until they are opened for writing. */
  @Test
  void afterAChangeOfKeysTheOldKeyIsTried() throws Exception {
    write(spec(1, key(1)));
    assertEquals(VALUE[0], read(spec(1, key(2), key(3), key(1)))[0]);
    assertThrows(IOException.class, () -> read(spec(1, key(2), key(3))));
    assertThrows(IOException.class, () -> read(spec(1, null)));
  }
}

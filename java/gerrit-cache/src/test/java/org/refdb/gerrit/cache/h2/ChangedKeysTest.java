package org.refdb.gerrit.cache.h2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ChangedKeysTest {
  private static final int BOOT_ID_AT = 8;
  private static final byte[] ONE = {1};
  private static final byte[] TWO = {2, 2};
  private static final byte[] OTHER = {3};

  @TempDir Path folder;
  private Path path;

  @BeforeEach
  void namePath() {
    path = folder.resolve("changed");
  }

  private void afterTheMachineStopped() throws IOException {
    byte[] content = Files.readAllBytes(path);
    content[BOOT_ID_AT] ^= 1;
    Files.write(path, content);
  }

  private ChangedKeys withTwo() throws IOException {
    ChangedKeys keys = ChangedKeys.create(path);
    keys.add(ONE);
    keys.add(TWO);
    keys.add(ONE);
    return keys;
  }

  private void assertHasTwo(ChangedKeys keys) {
    assertTrue(keys.contains(ONE) && keys.contains(TWO));
    assertFalse(keys.contains(OTHER));
  }

  @Test
  void aKillLosesNone() throws IOException {
    withTwo();
    ChangedKeys resumed = ChangedKeys.resume(path);
    assertHasTwo(resumed);
    resumed.add(OTHER);
    assertTrue(ChangedKeys.resume(path).contains(OTHER));
  }

  @Test
  void afterACleanStopTheMachineMayStopToo() throws IOException {
    withTwo().close();
    afterTheMachineStopped();
    assertHasTwo(ChangedKeys.resume(path));
  }

  @Test
  void whenTheMachineStopsBeforeTheProcessTheListIsNotBelieved() throws IOException {
    withTwo();
    afterTheMachineStopped();
    assertThrows(IOException.class, () -> ChangedKeys.resume(path));
  }

  @Test
  void aStopThatCountedIsForgottenOnceThereAreMoreChanges() throws IOException {
    withTwo().close();
    ChangedKeys.resume(path).add(OTHER);
    afterTheMachineStopped();
    assertThrows(IOException.class, () -> ChangedKeys.resume(path));
  }

  @Test
  void aCutTailIsDropped() throws IOException {
    withTwo();
    byte[] content = Files.readAllBytes(path);
    Files.write(path, Arrays.copyOf(content, content.length - 5));
    ChangedKeys resumed = ChangedKeys.resume(path);
    assertTrue(resumed.contains(ONE));
    resumed.add(TWO);
    assertHasTwo(ChangedKeys.resume(path));
  }

  @Test
  void anythingElseIsRefused() throws IOException {
    Files.write(path, new byte[10]);
    assertThrows(IOException.class, () -> ChangedKeys.resume(path));
    Files.write(path, new byte[100]);
    assertThrows(IOException.class, () -> ChangedKeys.resume(path));
  }

  @Test
  void itHasNoKeysAndIsTheUsersAlone() throws IOException {
    byte[] key = "a session's cookie".getBytes(java.nio.charset.StandardCharsets.US_ASCII);
    ChangedKeys.create(path).add(key);
    assertFalse(Files.readString(path, java.nio.charset.StandardCharsets.ISO_8859_1).contains("cookie"));
    assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
  }
}

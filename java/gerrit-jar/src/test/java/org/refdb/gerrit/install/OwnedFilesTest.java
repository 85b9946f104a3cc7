package org.refdb.gerrit.install;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests how the installer writes files. */
final class OwnedFilesTest {
  @TempDir Path folder;

  private static Object identity(Path file) throws Exception {
    return Files.readAttributes(file, BasicFileAttributes.class).fileKey();
  }

  @Test
  void aFileThatHasTheContentAlreadyStaysTheSameFile() throws Exception {
    Path jar = folder.resolve("refdb.jar");
    assertEquals("wrote " + jar, OwnedFiles.put(jar, "one".getBytes(UTF_8)));
    Object before = identity(jar);
    assertEquals("left " + jar + " as it is: it is the same", OwnedFiles.put(jar, "one".getBytes(UTF_8)));
    assertEquals(before, identity(jar));
    assertEquals("wrote " + jar, OwnedFiles.put(jar, "two".getBytes(UTF_8)));
    assertNotEquals(before, identity(jar));
    assertEquals("two", Files.readString(jar));
  }
}

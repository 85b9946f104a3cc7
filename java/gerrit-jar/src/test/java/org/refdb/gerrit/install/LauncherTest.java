package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.IOException;
import org.junit.jupiter.api.Test;

final class LauncherTest {
  private static final int JAVA_8 = 52;

  @Test
  void anOldJavaIsToldWhatIsNeededInsteadOfFailingToLoadClasses() throws IOException {
    try (DataInputStream file = new DataInputStream(Launcher.class.getResourceAsStream("Launcher.class"))) {
      assertEquals(0xcafebabe, file.readInt());
      file.readUnsignedShort();
      assertEquals(JAVA_8, file.readUnsignedShort(), "an old Java can load it");
    }
    String refusal = Launcher.refusal("17", "/usr/lib/jvm/old");
    assertTrue(refusal.contains("needs Java 21 or newer, and /usr/lib/jvm/old is Java 17"), refusal);
    assertTrue(Launcher.refusal("1.8", "x").contains("is Java 8"));
    assertNull(Launcher.refusal("21", "x"));
    assertEquals(JavaVersion.FEATURE_MIN, Launcher.FEATURE_MIN);
  }
}

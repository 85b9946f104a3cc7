package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.cache.Cache;
import com.google.gerrit.server.cache.PersistentCache;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Base64;
import java.util.Set;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.store.EncryptionKeys;
import org.refdb.gerrit.cache.store.NativeOpener;

/** Login sessions and tokens: durable, private, encrypted if a key is given. */
class SecretsTest {
  private static final String COOKIE = "aCookieThatLogsOneIn";

  @TempDir Path site;

  private TestGerrit start(Config config) {
    return new TestGerrit(site, config, TestGerrit.refdb(site, config), TestGerrit.strings("strings"));
  }

  private static Cache<String, String> sessions(TestGerrit gerrit) {
    return gerrit.factory().build(TestDef.named("web_sessions"));
  }

  private static Config withKey(int fill) {
    Config config = TestGerrit.config();
    config.setString("cache", "web_sessions", "encryptionKey", key(fill));
    return config;
  }

  private static String key(int fill) {
    byte[] key = new byte[32];
    java.util.Arrays.fill(key, (byte) fill);
    return Base64.getEncoder().encodeToString(key);
  }

  private String everythingOnDisk() throws IOException {
    StringBuilder all = new StringBuilder();
    try (Stream<Path> files = Files.walk(site)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        all.append(Files.readString(file, ISO_8859_1));
      }
    }
    return all.toString();
  }

  @Test
  void aLogoutSurvivesKill9() throws Exception {
    Killed.logoutAndKill(site);
    try (TestGerrit gerrit = start(TestGerrit.config())) {
      assertEquals("session", sessions(gerrit).getIfPresent("stays"));
      assertNull(sessions(gerrit).getIfPresent("leaves"));
    }
  }

  @Test
  void aSecondServerIsRefusedTheFilesAndRunsOnMemory() throws Exception {
    Killed.whileRefdbRuns(
        site,
        () -> {
          try (TestGerrit gerrit = start(TestGerrit.config())) {
            Cache<String, String> sessions = sessions(gerrit);
            assertNull(sessions.getIfPresent("stays"), "it reads what it may not write");
            sessions.put("second", "session");
            assertEquals("session", sessions.getIfPresent("second"));
            sessions.invalidateAll();
          }
        });
    try (TestGerrit gerrit = start(TestGerrit.config())) {
      assertEquals("session", sessions(gerrit).getIfPresent("stays"));
      assertNull(sessions(gerrit).getIfPresent("second"));
    }
  }

  @Test
  void filesAreForTheUserAlone() throws Exception {
    try (TestGerrit gerrit = start(TestGerrit.config())) {
      sessions(gerrit).put(COOKIE, "session");
    }
    Path folder = site.resolve("cache").resolve(NativeOpener.FOLDER);
    assertTrue(everythingOnDisk().contains(COOKIE), "without a key the test below proves nothing");
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.toList()) {
        Set<PosixFilePermission> others = Files.getPosixFilePermissions(file);
        others.removeAll(
            Set.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_EXECUTE));
        assertTrue(others.isEmpty(), file + " is open to " + others);
      }
    }
  }

  @Test
  void withAKeyNeitherKeysNorValuesAreInTheFiles() throws Exception {
    try (TestGerrit gerrit = start(withKey(7))) {
      sessions(gerrit).put(COOKIE, "the session's value");
    }
    assertFalse(everythingOnDisk().contains(COOKIE));
    assertFalse(everythingOnDisk().contains("the session's value"));
    try (TestGerrit gerrit = start(withKey(7))) {
      assertEquals("the session's value", sessions(gerrit).getIfPresent(COOKIE));
    }
  }

  @Test
  void aWrongKeyMeansAnEmptyCache() {
    try (TestGerrit gerrit = start(withKey(7))) {
      sessions(gerrit).put(COOKIE, "session");
    }
    try (TestGerrit gerrit = start(withKey(8))) {
      assertNull(sessions(gerrit).getIfPresent(COOKIE));
      sessions(gerrit).put("other", "session");
    }
    try (TestGerrit gerrit = start(withKey(8))) {
      assertEquals("session", sessions(gerrit).getIfPresent("other"));
    }
  }

  @Test
  void aKeyCanBeChanged() {
    try (TestGerrit gerrit = start(withKey(7))) {
      sessions(gerrit).put(COOKIE, "session");
    }
    Config changed = withKey(8);
    changed.setString("cache", "web_sessions", "oldEncryptionKey", key(7));
    try (TestGerrit gerrit = start(changed)) {
      assertEquals("session", sessions(gerrit).getIfPresent(COOKIE));
    }
    try (TestGerrit gerrit = start(withKey(8))) {
      assertEquals("session", sessions(gerrit).getIfPresent(COOKIE));
    }
  }

  @Test
  void aKeyThatIsNoneKeepsTheCacheInMemoryAndIsNotShown() throws Exception {
    Config config = TestGerrit.config();
    config.setString("cache", "web_sessions", "encryptionKey", "tooShortASecret");
    try (TestGerrit gerrit = start(config)) {
      Cache<String, String> sessions = sessions(gerrit);
      assertFalse(sessions instanceof PersistentCache);
      sessions.put(COOKIE, "session");
    }
    assertFalse(everythingOnDisk().contains(COOKIE));
    String message =
        assertThrows(
                IllegalArgumentException.class,
                () -> EncryptionKeys.of("web_sessions", "tooShortASecret", java.util.List.of()))
            .getMessage();
    assertFalse(message.contains("tooShortASecret"), message);
  }
}

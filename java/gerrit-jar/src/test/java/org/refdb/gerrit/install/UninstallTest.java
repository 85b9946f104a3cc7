package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Who takes refdb out learns what stays behind. */
final class UninstallTest {
  @TempDir Path site;

  private String uninstall() throws Exception {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    try (PrintStream out = new PrintStream(said, true, StandardCharsets.UTF_8)) {
      new Installer(out).uninstall(site);
    }
    return said.toString(StandardCharsets.UTF_8);
  }

  @Test
  void cookiesOfSessionsThatStayBehindAreNamedAndHowTheyGo() throws Exception {
    Files.createDirectories(site.resolve("etc"));
    Files.writeString(site.resolve("etc/gerrit.config"), "[cache]\n\tdirectory = kept\n");
    assertEquals("refdb is not installed in " + site + "\n", uninstall(), "there is nothing to tell of");
    Path caches = Files.createDirectories(site.resolve("kept/refdb"));
    String said = uninstall();
    assertTrue(said.contains("LEFT " + caches + ", refdb's persistent caches, with the cookies of sessions"), said);
    assertTrue(said.contains("`wipe-caches SITE` deletes them"), said);
  }
}

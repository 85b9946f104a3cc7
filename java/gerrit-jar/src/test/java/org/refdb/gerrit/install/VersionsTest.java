package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class VersionsTest {
  @TempDir Path folder;

  @Test
  void gerritsThatWereTriedAreTakenAndOthersAreNot() throws InstallException {
    for (String good : List.of("3.12.0", "3.13.5", "v3.14.2-12-gabc", "3.14.0-rc1")) {
      assertDoesNotThrow(GerritVersion.parse(good)::check, good);
    }
    for (String bad : List.of("3.11.9", "3.15.0", "2.16", "4.12.0")) {
      assertThrows(InstallException.class, GerritVersion.parse(bad)::check, bad);
    }
    assertThrows(InstallException.class, () -> GerritVersion.parse("dev"));
  }

  @Test
  void theJavaOfTheSiteIsJudgedNotTheOneThatRunsThis() throws Exception {
    Files.writeString(folder.resolve("release"), "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.1\"\n");
    JavaVersion old = JavaVersion.of(folder.toString());
    assertEquals(17, old.feature());
    assertThrows(InstallException.class, old::check);
    Files.writeString(folder.resolve("release"), "JAVA_VERSION=\"21\"\n");
    assertDoesNotThrow(JavaVersion.of(folder.toString())::check);
    assertThrows(InstallException.class, () -> JavaVersion.of(folder.resolve("no").toString()));
    assertDoesNotThrow(JavaVersion.of(null)::check);
  }

  @Test
  void aFolderThatIsNoSiteAndACommandThatIsNoneAreLeftAlone() throws IOException {
    assertEquals(1, run("install", folder.toString()));
    assertTrue(said.toString().contains("is no Gerrit site"), said.toString());
    try (var files = Files.list(folder)) {
      assertEquals(0, files.count());
    }
    for (String[] words :
        new String[][] {
          {}, {"install"}, {"remove", "x"}, {"uninstall", "x", "--named"}, {"version", "x"}
        }) {
      assertEquals(2, run(words), String.join(" ", words));
    }
  }

  @Test
  void nothingIsWrittenWhenTheGerritIsTooOld() throws IOException {
    Files.createDirectories(folder.resolve("etc"));
    Files.createDirectories(folder.resolve("bin"));
    Files.writeString(folder.resolve("etc/gerrit.config"), "[gerrit]\n");
    War.write(folder.resolve("bin/gerrit.war"), "3.11.1");
    assertEquals(1, run("install", folder.toString()));
    assertTrue(said.toString().contains("the site has 3.11.1"), said.toString());
    assertEquals("[gerrit]\n", Files.readString(folder.resolve("etc/gerrit.config")));
    assertTrue(Files.notExists(folder.resolve("lib")));
  }

  private final ByteArrayOutputStream said = new ByteArrayOutputStream();

  private int run(String... words) {
    PrintStream stream = new PrintStream(said, true);
    return Main.run(List.of(words), stream, stream);
  }
}

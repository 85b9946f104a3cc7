package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class StatusTest {
  @TempDir Path site;

  private String status(String config) throws Exception {
    Files.writeString(Files.createDirectories(site.resolve("etc")).resolve("gerrit.config"), config);
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    try (PrintStream out = new PrintStream(said, true, StandardCharsets.UTF_8)) {
      assertFalse(new Status(out).of(site));
    }
    return said.toString(StandardCharsets.UTF_8);
  }

  @Test
  void oneOfTheTwoModulesForRefsIsTheOnlyFault() throws Exception {
    assertEquals(
        "FAULT    gerrit.config names no module of refdb: it is not installed\n1 faults\n", status("[gerrit]\n"));
    GerritModule alone = GerritModule.REFS_IN_SERVER;
    assertEquals(
        "FAULT    gerrit.config has one of the two modules for refs: run install again\n1 faults\n",
        status("[gerrit]\n\t" + alone.key() + " = " + alone.className() + "\n"));
  }

  @Test
  void bothModulesThatTakeThePlaceOfEachOtherAreAFault() throws Exception {
    StringBuilder config = new StringBuilder("[gerrit]\n");
    for (GerritModule module : List.of(GerritModule.REFS, GerritModule.NAMED_REFS, GerritModule.REFS_IN_SERVER)) {
      config.append('\t').append(module.key()).append(" = ").append(module.className()).append('\n');
    }
    String said = status(config.toString());
    assertTrue(said.contains("FAULT    gerrit.config has RefdbDbModule and RefdbNamedDbModule: "), said);
  }
}

package org.refdb.gerrit.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.refdb.engine.RefStats;
import org.refdb.gerrit.refs.ProjectStat;

class HealthTest {
  @Test
  void projectsWhereAlwaysHasNoEffectAreOneWarningThatNamesNone() {
    assertEquals(List.of(), Health.warnings(List.of(project("local", 0), unused())));
    List<String> warnings =
        Health.warnings(List.of(project("first", 1), project("local", 0), project("second", 1), unused()));
    assertEquals(1, warnings.size());
    String said = warnings.getFirst();
    assertTrue(said.contains("`always` in 2 of the projects") && said.contains("up to 60 s"), said);
    assertTrue(said.contains("`after_open`") && !said.contains("first"), said);
  }

  private static ProjectStat project(String name, long ignoredTrust) {
    RefStats engine = new RefStats(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ignoredTrust);
    return new ProjectStat(name, false, null, 0, 0, 0, 0, engine, null);
  }

  private static ProjectStat unused() {
    return new ProjectStat("unused", false, null, 0, 0, 0, 0, null, null);
  }
}

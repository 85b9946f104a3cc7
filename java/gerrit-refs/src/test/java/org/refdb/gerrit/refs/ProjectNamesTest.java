package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import java.nio.file.Path;
import java.util.Random;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ProjectNamesTest {
  private static final String[] PARTS = {
    "a", "b", "/", ".", "..", ".git", "\\", "?", "%", "*", ":", "<", ">", "|", "$", "\r", "+", "~", " ", "-"
  };

  @TempDir Path folder;

  @Test
  void exactlyTheNamesThatGerritAcceptsAreAccepted() throws Exception {
    LocalDiskRepositoryManager gerrit = Sites.disk(folder);
    Random random = new Random(1);
    int accepted = 0;
    for (int i = 0; i < 20_000; i++) {
      StringBuilder name = new StringBuilder();
      for (int part = random.nextInt(6); part >= 0; part--) {
        name.append(PARTS[random.nextInt(PARTS.length)]);
      }
      String text = i == 0 ? "" : name.toString();
      boolean ours = ProjectNames.isAcceptable(text);
      assertEquals(isAcceptedBy(gerrit, text), ours, "<" + text + ">");
      accepted += ours ? 1 : 0;
    }
    assertEquals(true, accepted > 1000 && accepted < 19_000, "both kinds are tried: " + accepted);
  }

  private static boolean isAcceptedBy(LocalDiskRepositoryManager gerrit, String name) {
    try {
      gerrit.openRepository(Project.nameKey(name)).close();
      return true;
    } catch (RepositoryNotFoundException e) {
      return !e.getMessage().contains("Invalid name");
    }
  }
}

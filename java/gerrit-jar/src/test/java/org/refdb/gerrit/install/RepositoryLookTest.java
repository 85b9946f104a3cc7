package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class RepositoryLookTest {
  @TempDir Path folder;

  @Test
  void theMountOfRepositoriesThatAreSharedIsDescribedOnce() throws Exception {
    Path first = repository("a.git");
    repository("b.git");
    String local = look("");
    assertTrue(local.contains("looked at 2 repositories") && !local.contains("mount: "), local);
    // With this fault no file system counts as local.
    String shared = look("vfs-local");
    assertTrue(shared.contains("looked at 2 repositories"), shared);
    assertEquals(2, shared.split("\n  mount: ", -1).length, shared);
    assertTrue(shared.contains("\n  not tested: refdb does not know this kind of file system"), shared);
    assertFalse(shared.contains("cannot serve it"), shared);
    assertTrue(shared.contains("storage of " + first.getParent()), shared);
  }

  private Path repository(String name) throws Exception {
    Path repository = folder.resolve("git").resolve(name);
    Files.createDirectories(repository.resolve("objects"));
    Files.createDirectories(repository.resolve("refs"));
    Files.writeString(repository.resolve("HEAD"), "ref: refs/heads/master\n");
    Files.writeString(repository.resolve("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
    return repository;
  }

  private String look(String fault) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    List<String> command =
        List.of(
            java,
            "--enable-native-access=ALL-UNNAMED",
            "-cp",
            classes,
            RepositoryLook.class.getName(),
            Files.createDirectories(folder.resolve("native")).toString(),
            folder.resolve("git").toString());
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("REFDB_PLANTED_FAULT", fault);
    Process process = builder.start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), said);
    return said;
  }
}

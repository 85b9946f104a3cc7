package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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

  @Test
  void anUnsafeMountIsRefusedUnlessTheSiteAllowsIt() throws Exception {
    Path repository = repository("a.git");
    String refused = look("vfs-nocto", RepositoryLook.UNSAFE);
    assertTrue(refused.contains("note: " + repository + ": refusing to write refs"), refused);
    assertTrue(refused.contains("the mount option nocto"), refused);
    String allowed = look("vfs-nocto", 0, RepositoryLook.OVERRIDE);
    assertFalse(allowed.contains("refusing to write"), allowed);
    Files.writeString(
        repository.resolve("config"),
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[refdb]\n\tunsafeStorage = true\n");
    look("vfs-nocto", 0);
    assertTrue(look("vfs-local", 0).contains("looked at 1 repositories"));
  }

  /** A program that crashes, or that cannot load the library, has not found the storage safe. */
  @Test
  void repositoriesThatWereNotExaminedAreNotTakenForSafe() throws Exception {
    Path library = Files.createFile(folder.resolve("native"));
    String said = run("", 1, library, List.of());
    assertTrue(said.contains("the repositories were not looked at"), said);
    Path config = folder.resolve("jgit.config");
    assertDoesNotThrow(() -> Installer.requireSafe(0, config));
    for (int status : new int[] {1, RepositoryLook.UNSAFE, 134}) {
      assertThrows(InstallException.class, () -> Installer.requireSafe(status, config));
    }
  }

  @Test
  void noNumberOfBrokenRefsHidesAnUnsafeRepository() throws Exception {
    List<Path> repositories = List.of(repository("a.git"), repository("b.git"));
    for (Path repository : repositories) {
      for (int i = 0; i < 150; i++) {
        Files.writeString(Files.createDirectories(repository.resolve("refs/heads")).resolve("b" + i), "rubbish\n");
      }
    }
    String said = look("vfs-nocto", RepositoryLook.UNSAFE);
    for (Path repository : repositories) {
      assertTrue(said.contains("note: " + repository + ": refusing to write refs"), said);
    }
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
    return look(fault, 0);
  }

  private String look(String fault, int status, String... words) throws Exception {
    return run(fault, status, Files.createDirectories(folder.resolve("native")), List.of(words));
  }

  private String run(String fault, int status, Path library, List<String> words) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    List<String> command = new ArrayList<>();
    command.addAll(List.of(java, "--enable-native-access=ALL-UNNAMED", "-cp", classes, RepositoryLook.class.getName()));
    command.add(library.toString());
    command.addAll(words);
    command.add(folder.resolve("git").toString());
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("REFDB_PLANTED_FAULT", fault);
    Process process = builder.start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(status, process.waitFor(), said);
    return said;
  }
}

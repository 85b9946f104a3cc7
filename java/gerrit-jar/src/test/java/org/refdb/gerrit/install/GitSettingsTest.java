package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The settings that the installer gives to git, checked with the real git. */
final class GitSettingsTest {
  private static final String GIT = System.getProperty("refdb.test.git");
  private static final int REFS = 40;

  @TempDir Path home;

  @Test
  void gitPacksNoRefsByItselfOnceTheInstallerHasSaidSo() throws Exception {
    String before = "[user]\n\tname = Gerrit\n\temail = gerrit@example.com\n";
    Files.writeString(config(), before);
    assertEquals(0, looseAfter("gc", "--quiet"), "git packs");
    assertFalse(GitSettings.run("check", config()));
    assertTrue(GitSettings.run("set", config()));
    assertTrue(GitSettings.run("check", config()));
    for (String[] command :
        new String[][] {
          {"gc", "--quiet"},
          {"maintenance", "run", "--quiet"},
          {"-c", "maintenance.autoDetach=false", "maintenance", "run", "--auto"},
          {"-c", "maintenance.strategy=gc", "maintenance", "run"},
          {"-c", "maintenance.strategy=incremental", "maintenance", "run", "--schedule=weekly"},
          {"-c", "maintenance.strategy=geometric", "maintenance", "run", "--schedule=weekly"}
        }) {
      assertEquals(REFS, looseAfter(command), String.join(" ", command));
    }
    GitSettings.run("unset", config());
    assertEquals(before + "[gc]\n[maintenance \"pack-refs\"]\n", Files.readString(config()));
  }

  @Test
  void whatTheUserHasSetIsLeftAndSaid() throws Exception {
    String theirs = "[gc]\n\tpackRefs = true\n[maintenance \"pack-refs\"]\n\tenabled = No\n";
    Files.writeString(config(), theirs);
    assertFalse(GitSettings.run("set", config()), "gc.packRefs is true");
    GitSettings.run("unset", config());
    assertEquals(theirs, Files.readString(config()));
    Files.writeString(config(), theirs.replace("true", "notbare"));
    assertTrue(GitSettings.run("check", config()));
  }

  /** Previously, only the file itself was read. */
  @Test
  void whatAnIncludedFileSetsCounts() throws Exception {
    Files.writeString(home.resolve("more"), "[gc]\n\tpackRefs = true\n[maintenance \"pack-refs\"]\n\tenabled = no\n");
    Files.writeString(config(), "[gc]\n\tauto = 5\n[include]\n\tpath = ~/more\n");
    assertFalse(GitSettings.run("set", config()), "the included gc.packRefs comes later");
    Files.writeString(home.resolve("more"), "[gc]\n\tpackRefs = off\n[maintenance \"pack-refs\"]\n\tenabled = no\n");
    Files.writeString(config(), "[include]\n\tpath = ~/more\n");
    assertTrue(GitSettings.run("check", config()));
  }

  /**
   * Some of the files set gc.packRefs in unusual spellings, and the others do not set it. All leave the other setting
   * to the installer.
   */
  @Test
  void everySpellingOfWhatTheUserHasSetIsReadAsGitReadsIt() throws Exception {
    for (String theirs :
        List.of(
            "[gc]\n\tpackRefs\n",
            "[gc] packRefs\r\n",
            "[gc]\n\tauto = 5\n\tpackRefs \n\tpruneExpire = now\n",
            "[gc]\n\tpackRefs = fal\\\nse\n",
            "[gc]\n\tpackRefs = \\\r\n\ttrue\n",
            "[gc]\n\tpackRefs = \"not\\\nbare\" # why \\\n",
            "[gc] pruneExpire = \\\n now\n",
            "[gc]\n\tpruneExpire = now\\\npackRefs = true\n",
            "[gc]\n\tlogExpiry = \"a \\\" # b \\\n packRefs = c\"\n# \\\n\tpackRefs = off\n")) {
      Files.writeString(config(), theirs);
      boolean good = GitSettings.run("set", config());
      String packs = git(home, "config", "--type=bool-or-str", "--get", "gc.packRefs");
      assertEquals(List.of("false", "notbare").contains(packs), good, theirs + " is " + packs + " to git");
      for (String key : List.of("auto", "pruneExpire", "logExpiry")) {
        String after = git(home, "config", "--default", "-", "--get", "gc." + key);
        Files.writeString(home.resolve("before"), theirs);
        assertEquals(git(home, "config", "--file", "before", "--default", "-", "--get", "gc." + key), after, theirs);
      }
      GitSettings.run("unset", config());
      assertTrue(Files.readString(config()).startsWith(theirs), theirs);
    }
  }

  private Path config() {
    return home.resolve(".gitconfig");
  }

  /** How many loose refs a command leaves in a repository of loose refs. */
  private long looseAfter(String... command) throws Exception {
    Path repository = Files.createTempDirectory(home, "repository");
    git(repository, "init", "--quiet", "--bare", ".");
    String tree = git(repository, "hash-object", "-t", "tree", "-w", "/dev/null");
    String commit = git(repository, "commit-tree", "-m", "one", tree);
    Path heads = repository.resolve("refs/heads");
    for (int i = 0; i < REFS; i++) {
      Files.writeString(heads.resolve("b" + i), commit + "\n");
    }
    git(repository, command);
    try (Stream<Path> left = Files.list(heads)) {
      return left.count();
    }
  }

  private String git(Path repository, String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of(GIT));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).directory(repository.toFile()).redirectErrorStream(true);
    builder.environment().keySet().removeIf(name -> name.startsWith("GIT_") || name.equals("XDG_CONFIG_HOME"));
    builder.environment().put("HOME", home.toString());
    builder.environment().put("GIT_CONFIG_NOSYSTEM", "1");
    Process process = builder.start();
    String said = new String(process.getInputStream().readAllBytes()).strip();
    assertEquals(0, process.waitFor(), command + ": " + said);
    return said;
  }
}

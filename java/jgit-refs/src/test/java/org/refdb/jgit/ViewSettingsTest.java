package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.util.SystemReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.EngineView;

class ViewSettingsTest {
  @TempDir Path folder;

  /** Settings of the user and the site are passed on, because the engine does not read their files. */
  @Test
  void whatTheUserOrTheSiteSetsIsPassedOn() throws Exception {
    Config outer = new Config();
    outer.fromText(
        "[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 100\n\tunsafeStorage = true\n"
            + "[core]\n\tfilesRefLockTimeout = 7\n[gc]\n\tpackRefs = false\n");
    List<String> all =
        List.of(
            "core.filesRefLockTimeout=7",
            "refdb.smallBatches=loose",
            "refdb.looseRefs=100",
            "refdb.unsafeStorage=true",
            "gc.packRefs=false");
    assertEquals(all, ViewSettings.of(new Config(outer)).config());
    outer.fromText(
        "[core]\n\tlogAllRefUpdates\n[gc]\n\tpackRefs\n[maintenance \"pack-refs\"]\n\tenabled = no\n");
    assertEquals(List.of("core.logAllRefUpdates", "gc.packRefs", "maintenance.pack-refs.enabled=no"),
        ViewSettings.of(new Config(outer)).config());
  }

  /** Previously, refdb took git for one that packs no refs because of a file that git does not read. */
  @Test
  void whatJgitsFileSaysOfGitIsNotPassedOn() throws Exception {
    Config ofJgit = SystemReader.getInstance().getJGitConfig();
    Config outer = new Config(ofJgit);
    outer.fromText("[maintenance \"pack-refs\"]\n\tenabled = false\n");
    ofJgit.setBoolean("gc", null, "packRefs", false);
    ofJgit.setString("refdb", null, "smallBatches", "auto");
    try {
      assertEquals(
          List.of("refdb.smallBatches=auto", "maintenance.pack-refs.enabled=false"),
          ViewSettings.of(new Config(outer)).config());
    } finally {
      ofJgit.unsetSection("gc", null);
      ofJgit.unsetSection("refdb", null);
    }
  }

  @Test
  void aTrustSettingThatSaysAlwaysIsToldFromTheDefault() throws Exception {
    for (String always :
        List.of(
            "trustStat = always",
            "trustStat = never\n\ttrustLooseRefStat = ALWAYS",
            "trustTablesListStat = always")) {
      assertTrue(isAlwaysSet(always), always);
    }
    for (String other :
        List.of(
            "",
            "trustStat = after_open",
            "trustFolderStat = false",
            "trustStat = always\n\ttrustPackedRefsStat = never\n\ttrustLooseRefStat = never\n"
                + "\ttrustTablesListStat = never")) {
      assertFalse(isAlwaysSet(other), other);
    }
    assertTrue(isAlwaysSet("trustStat = always\n\ttrustPackedRefsStat = inherit\n\ttrustLooseRefStat = never"));
  }

  private static boolean isAlwaysSet(String core) throws Exception {
    Config config = new Config();
    config.fromText("[core]\n\t" + core + "\n");
    return ViewSettings.of(config).alwaysSet();
  }

  /**
   * Opens a repository, which logs any warning, and prints the counter of ignored trust settings and the warning that
   * is still pending.
   */
  static final class Opener {
    public static void main(String[] arguments) throws Exception {
      try (RefdbRepository repository = Lab.open(Path.of(arguments[0]))) {
        EngineView view = ((RefdbDatabase) repository.getRefDatabase()).view();
        System.out.println(view.stats().ignoredTrust() + " " + view.takeIgnoredTrust());
      }
    }
  }

  @Test
  void alwaysOnANetworkFileSystemIsLoggedAndCounted() throws Exception {
    Path gitDir = Lab.create(folder.resolve("network.git"), Lab.Format.FILES);
    Files.writeString(gitDir.resolve("config"), "[core]\n\ttrustStat = always\n", StandardOpenOption.APPEND);
    List<String> arguments = List.of(gitDir.toString());
    assertEquals("0 Optional.empty", ChildJvm.lastLine(ChildJvm.startWith(Map.of(), Opener.class, arguments)));
    // With this fault no file system counts as local.
    Process child = ChildJvm.startWith(Map.of("REFDB_PLANTED_FAULT", "vfs-local"), Opener.class, arguments);
    String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    // The log4j of Gerrit 3.12 has no appender in tests.
    boolean hasNoLog = said.contains("No appenders could be found for logger");
    assertTrue(hasNoLog || said.contains("WARN") && said.contains("one kind of refs, is `always` in " + gitDir), said);
    assertTrue(said.endsWith("1 Optional.empty\n"), said);
  }

  /**
   * Tests {@code smallBatches = auto}, as the installer sets it, where the repository's own config decides whether git
   * packs refs.
   */
  @Test
  void smallBatchesAreLooseOnlyWhereGitPacksNothingByItself() throws Exception {
    Path gitDir = Lab.create(folder.resolve("auto.git"), Lab.Format.FILES);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    Lab.write(gitDir.resolve("packed-refs"), longPackedRefs(commit));
    String auto = "[refdb]\n\tsmallBatches = auto\n[gc]\n\tpackRefs = false\n[maintenance \"pack-refs\"]\n\tenabled = ";
    Files.writeString(gitDir.resolve("config"), auto + "false\n", StandardOpenOption.APPEND);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertTrue(isLoose(repository, commit, "first"));
      Files.writeString(gitDir.resolve("config"), "[gc]\n\tpackRefs = true\n", StandardOpenOption.APPEND);
      assertFalse(isLoose(repository, commit, "second"));
      EngineView view = ((RefdbDatabase) repository.getRefDatabase()).view();
      assertEquals("gc.packRefs", view.stats().settingsOfGit());
      assertEquals(1, view.stats().gitPacks());
      String told = view.takeGitPacks().orElseThrow();
      assertTrue(told.contains("gc.packRefs is true in"), told);
    }
  }

  @Test
  void thatLooseRefsCannotBeFoldedIsToldWithTheReason() throws Exception {
    Path gitDir = Lab.create(folder.resolve("stuck.git"), Lab.Format.FILES);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    Lab.write(gitDir.resolve("packed-refs"), longPackedRefs(commit));
    Files.writeString(
        gitDir.resolve("config"),
        "[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 2\n[core]\n\tpackedRefsTimeout = 0\n",
        StandardOpenOption.APPEND);
    Files.createFile(gitDir.resolve("packed-refs.lock"));
    try (RefdbRepository repository = Lab.open(gitDir)) {
      EngineView view = ((RefdbDatabase) repository.getRefDatabase()).view();
      Optional<String> told = Optional.empty();
      for (int i = 0; told.isEmpty() && i < 1000; i++) {
        assertTrue(isLoose(repository, commit, "stuck" + i));
        Thread.sleep(20);
        told = view.takePackingFailure();
      }
      assertTrue(told.orElseThrow().contains("packed-refs.lock"), told.get());
      assertEquals(Optional.empty(), view.takePackingFailure(), "once");
    }
  }

  private static boolean isLoose(RefdbRepository repository, ObjectId commit, String name) throws Exception {
    try (RevWalk walk = new RevWalk(repository)) {
      BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate().setAtomic(true);
      for (String half : List.of("a", "b")) {
        batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commit, "refs/heads/" + name + half));
      }
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    return Files.exists(repository.getDirectory().toPath().resolve("refs/heads/" + name + "a"));
  }

  /**
   * Returns a packed-refs of more than 512 KiB for each ref of a batch of two. If it were shorter, the batch would not
   * be written as loose files.
   */
  private static String longPackedRefs(ObjectId commit) {
    StringBuilder packed = new StringBuilder("# pack-refs with: peeled fully-peeled sorted \n");
    for (int i = 0; i < 20_000; i++) {
      packed.append(commit.name()).append(String.format(" refs/changes/%06d/1\n", i));
    }
    return packed.toString();
  }

  @Test
  void smallBatchesAreLooseFilesAndFoldedWhereTheSettingsSaySo() throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.FILES);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    Lab.write(gitDir.resolve("packed-refs"), longPackedRefs(commit));
    Files.writeString(gitDir.resolve("config"), "[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 8\n",
        StandardOpenOption.APPEND);
    long folds = Lab.views().holdings().folds();
    try (RefdbRepository repository = Lab.open(gitDir);
        RevWalk walk = new RevWalk(repository)) {
      for (int i = 0; i < 8; i++) {
        BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate().setAtomic(true);
        for (String half : List.of("a", "b")) {
          batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commit, "refs/heads/" + i + half));
        }
        batch.execute(walk, NullProgressMonitor.INSTANCE);
        if (i == 0) {
          assertTrue(Files.exists(gitDir.resolve("refs/heads/0a")), "a small batch is loose");
        }
      }
      Lab.awaitFolds(gitDir, folds);
      assertEquals(0, Lab.views().holdings().failedFolds());
      assertEquals(commit, repository.exactRef("refs/heads/7b").getObjectId());
      assertTrue(Files.readString(gitDir.resolve("packed-refs")).contains(" refs/heads/0a\n"),
          "the first batch is packed");
    }
  }

  @Test
  void whatTheRepositorySetsItselfIsReadThere() throws Exception {
    Config outer = new Config();
    outer.fromText("[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 100\n");
    Config own = new Config(outer);
    own.fromText("[refdb]\n\tsmallbatches = packed\n");
    assertEquals(List.of("refdb.looseRefs=100"), ViewSettings.of(own).config());
  }
}

package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Names outside refs/: those of files that are no refs, and those for which a look-up never finds a ref. */
class NamesOfFilesTest {
  private static final List<String> FILES =
      List.of(
          "config",
          "packed-refs",
          "description",
          "index",
          "shallow",
          "info/grafts",
          "hooks/pre-receive",
          "objects/info/alternates",
          "logs/HEAD",
          "reftable/tables.list",
          "MERGE_MSG",
          "some/file");
  private static final List<String> NO_FILES = List.of("ref/heads/new", "worktrees/w/refs/heads/x", "foo");

  @TempDir Path folder;
  private Path gitDir;
  private Lab.Objects objects;

  private RefdbRepository open(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), format);
    objects = Lab.objects(gitDir, 2);
    RefdbRepository repository = Lab.open(gitDir);
    RefdbDatabaseTest.set(repository, "refs/heads/master", objects.commits().get(0));
    RefdbDatabaseTest.set(repository, "refs/heads/other", objects.commits().get(0));
    for (String name : FILES) {
      if (!Files.exists(gitDir.resolve(name))) {
        boolean isPackedRefs = name.equals("packed-refs");
        Lab.write(gitDir.resolve(name), isPackedRefs ? "" : objects.commits().get(0).name() + "\n");
      }
    }
    return repository;
  }

  private Map<String, String> contents(Lab.Format format) throws IOException {
    Map<String, String> contents = new TreeMap<>();
    for (String name : FILES) {
      if (name.equals("reftable/tables.list") && format == Lab.Format.REFTABLE) {
        continue; // each write changes it
      }
      contents.put(name, Files.readString(gitDir.resolve(name)));
    }
    return contents;
  }

  private interface Write {
    void to(Repository repository, String name) throws Exception;
  }

  private void update(Repository repository, String name) throws Exception {
    assertNotEquals(RefUpdate.Result.NEW, RefdbDatabaseTest.set(repository, name, objects.commits().get(1)));
  }

  private static void link(Repository repository, String name) throws Exception {
    assertNotEquals(RefUpdate.Result.NEW, repository.updateRef(name).link("refs/heads/master"));
  }

  private static void delete(Repository repository, String name) throws Exception {
    RefUpdate update = repository.updateRef(name);
    update.setForceUpdate(true);
    update.delete();
  }

  private static void rename(Repository repository, String name) throws Exception {
    assertNotEquals(RefUpdate.Result.RENAMED, repository.renameRef("refs/heads/other", name).rename());
  }

  private void batch(Repository repository, String name, boolean atomic, ObjectId newId) throws Exception {
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    batch.setAtomic(atomic);
    batch.setAllowNonFastForwards(true);
    ReceiveCommand bad = new ReceiveCommand(ObjectId.zeroId(), newId, name);
    batch.addCommand(bad);
    batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), objects.commits().get(0), "refs/heads/beside"));
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    assertNotEquals(ReceiveCommand.Result.OK, bad.getResult());
  }

  /** Returns each way to write. A refusal may be an exception or an unsuccessful result. */
  private List<Write> writes() {
    return List.of(
        this::update,
        NamesOfFilesTest::link,
        NamesOfFilesTest::delete,
        NamesOfFilesTest::rename,
        (repository, name) -> batch(repository, name, true, objects.commits().get(1)),
        (repository, name) -> batch(repository, name, false, objects.commits().get(1)),
        this::throughLink);
  }

  private void throughLink(Repository repository, String name) throws Exception {
    // Git creates such a link, but neither JGit nor refdb does.
    CGit.run(gitDir, "symbolic-ref", "refs/heads/link", name);
    update(repository, "refs/heads/link");
  }

  @ParameterizedTest
  @EnumSource
  void aRefWasWrittenOverAFileThatIsNoRef(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      Map<String, String> before = contents(format);
      for (Write write : writes()) {
        for (String name : FILES) {
          try {
            write.to(repository, name);
          } catch (IOException | IllegalArgumentException e) {
            // Refused.
          }
          assertEquals(before, contents(format), name);
        }
      }
      assertEquals(objects.commits().get(0), repository.exactRef("refs/heads/other").getObjectId());
      assertNull(repository.exactRef("refs/heads/beside"));
    }
    try (Repository plain = Lab.openPlain(gitDir)) {
      assertEquals(objects.commits().get(0), plain.exactRef("refs/heads/master").getObjectId());
    }
  }

  @ParameterizedTest
  @EnumSource
  void aNameOutsideRefsWasWrittenAndCouldNotBeReadNorDeleted(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      for (String name : NO_FILES) {
        IOException refused =
            assertThrows(IOException.class, () -> RefdbDatabaseTest.set(repository, name, objects.commits().get(0)));
        assertEquals("refusing to update ref with bad name '" + name + "'", refused.getMessage());
        assertNull(repository.exactRef(name));
        assertFalse(Files.exists(gitDir.resolve(name)), name);
      }
    }
  }

  /** Git's own files whose names look like refnames hold text. As in JGit, they are neither refs nor broken refs. */
  @ParameterizedTest
  @EnumSource
  void aMessageFileOfGitWasABrokenRef(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format);
        Repository plain = Lab.openPlain(gitDir)) {
      Map<String, String> texts =
          Map.of("MERGE_MSG", "Merge branch 'x' into a branch with a long name\n", "MERGE_MODE", "",
              "BISECT_LOG", "git bisect start\n", "NOTES", "\0\1");
      for (Map.Entry<String, String> text : texts.entrySet()) {
        Lab.write(gitDir.resolve(text.getKey()), text.getValue());
        for (Repository each : List.of(plain, repository)) {
          RefDatabase refs = each.getRefDatabase();
          assertNull(refs.exactRef(text.getKey()), text.getKey());
          assertNull(refs.findRef(text.getKey()), text.getKey());
          assertEquals(Map.of(), refs.exactRef(new String[] {text.getKey()}), text.getKey());
        }
      }
      assertEquals(List.of(), repository.getRefDatabase().getAdditionalRefs());
      // A file with the name of a root ref can only be a ref, so that damage to it is an error, unlike in JGit.
      Lab.write(gitDir.resolve("ORIG_HEAD"), "damage\n");
      if (format == Lab.Format.FILES) {
        assertThrows(IOException.class, () -> repository.exactRef("ORIG_HEAD"));
        assertThrows(IOException.class, () -> repository.getRefDatabase().getAdditionalRefs());
      }
    }
  }
}

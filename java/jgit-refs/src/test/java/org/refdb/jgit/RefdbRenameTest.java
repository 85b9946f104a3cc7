package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.StoredConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.refdb.engine.BatchResult;

/** Refs that are renamed through JGit, and their reflogs. */
class RefdbRenameTest {
  private static final String OLD = "refs/heads/old";
  private static final String NEW = "refs/heads/new";

  @TempDir Path folder;
  private Path gitDir;
  private List<ObjectId> commits;

  @ParameterizedTest
  @EnumSource
  void theReflogGoesAlong(Lab.Format format) throws Exception {
    try (RefdbRepository repository = withLoggedRef(format)) {
      assertEquals(RefUpdate.Result.RENAMED, rename(repository, OLD, NEW, "renamed"));
      assertNull(repository.exactRef(OLD));
      assertEquals(List.of("renamed", "second", "first"), reflog(repository, NEW));
    }
    try (Repository plain = Lab.openPlain(gitDir)) {
      assertEquals(List.of("renamed", "second", "first"), reflog(plain, NEW));
    }
    assertTrue(CGit.run(gitDir, "reflog", "exists", NEW));
    assertFalse(CGit.run(gitDir, "reflog", "exists", OLD));
  }

  @ParameterizedTest
  @EnumSource
  void itGoesAlongToANameThatWouldGetNone(Lab.Format format) throws Exception {
    try (RefdbRepository repository = withLoggedRef(format)) {
      assertEquals(RefUpdate.Result.RENAMED, rename(repository, OLD, "refs/other/new", "renamed"));
      assertEquals(List.of("renamed", "second", "first"), reflog(repository, "refs/other/new"));
    }
  }

  @ParameterizedTest
  @EnumSource
  void itGoesAlongWithoutAMessage(Lab.Format format) throws Exception {
    try (RefdbRepository repository = withLoggedRef(format)) {
      assertEquals(RefUpdate.Result.RENAMED, rename(repository, OLD, NEW, null));
      assertEquals(List.of("second", "first"), reflog(repository, NEW));
    }
  }

  @ParameterizedTest
  @EnumSource
  void itStaysWhereTheNewNameCannotBe(Lab.Format format) throws Exception {
    try (RefdbRepository repository = withLoggedRef(format)) {
      set(repository, "refs/heads/a/b", commits.get(0), "other");
      for (String name : List.of("refs/heads/a", "refs/heads/a/b/c")) {
        assertEquals(RefUpdate.Result.LOCK_FAILURE, rename(repository, OLD, name, "renamed"), name);
        assertEquals(commits.get(1), repository.exactRef(OLD).getObjectId());
        assertEquals(List.of("second", "first"), reflog(repository, OLD));
      }
    }
  }

  @Test
  void aLockedHeadIsALockFailureThatLeavesBothNames() throws Exception {
    try (RefdbRepository repository = withLoggedRef(Lab.Format.FILES)) {
      repository.updateRef(Constants.HEAD).link(OLD);
      Path lock = Files.createFile(gitDir.resolve("HEAD.lock"));
      assertEquals(RefUpdate.Result.LOCK_FAILURE, rename(repository, OLD, NEW, "renamed"));
      Files.delete(lock);
      assertEquals(OLD, repository.exactRef(Constants.HEAD).getTarget().getName());
      assertEquals(commits.get(1), repository.exactRef(OLD).getObjectId());
      assertNull(repository.exactRef(NEW));
    }
  }

  /** Both happen after HEAD has followed. Previously, HEAD stayed at the other's new branch. */
  @ParameterizedTest
  @EnumSource
  void headReturnsIfAnotherDeletesTheRefAndCreatesTheNewOne(Lab.Format format) throws Exception {
    try (RefdbRepository repository = withLoggedRef(format)) {
      repository.updateRef(Constants.HEAD).link(OLD);
      BatchCommitter late =
          (view, batch) -> {
            if (batch.names().contains(OLD)) {
              RefUpdate delete = repository.updateRef(OLD);
              delete.setForceUpdate(true);
              delete.delete();
              set(repository, NEW, commits.get(0), "another's");
            }
            return view.commit(batch);
          };
      RefdbDatabase refs = RefdbDatabase.open(Lab.views(), repository, () -> null, late);
      RefRename rename = refs.newRename(OLD, NEW);
      rename.disableRefLog();
      assertEquals(RefUpdate.Result.LOCK_FAILURE, rename.rename());
      refs.close();
      assertEquals(OLD, repository.exactRef(Constants.HEAD).getTarget().getName());
      assertEquals(commits.get(0), repository.exactRef(NEW).getObjectId());
    }
  }

  /** The answer is lost, and the branch moves on at once. Previously, HEAD returned to the name that was gone. */
  @ParameterizedTest
  @EnumSource
  void headStaysIfARenameThatFailedWasDoneAndTheBranchMovedOn(Lab.Format format) throws Exception {
    try (RefdbRepository repository = withLoggedRef(format)) {
      set(repository, OLD, commits.get(0), "first");
      repository.updateRef(Constants.HEAD).link(OLD);
      BatchCommitter unanswered =
          (view, batch) -> {
            BatchResult done = view.commit(batch);
            if (batch.names().contains(OLD)) {
              set(repository, NEW, commits.get(1), "moved on");
              throw new NotAgreedException(NotAgreedException.Why.NO_ANSWER, "the answer is lost", null);
            }
            return done;
          };
      RefdbDatabase refs = RefdbDatabase.open(Lab.views(), repository, () -> null, unanswered);
      RefRename rename = refs.newRename(OLD, NEW);
      rename.disableRefLog();
      assertThrows(NotAgreedException.class, rename::rename);
      refs.close();
      assertEquals(NEW, repository.exactRef(Constants.HEAD).getTarget().getName());
    }
  }

  /** A lock that nobody releases must not keep an update for as many attempts as one that others overtake. */
  @Test
  void aLockedRefIsALockFailureAfterOneAttempt() throws Exception {
    try (RefdbRepository repository = withLoggedRef(Lab.Format.FILES)) {
      Files.createFile(gitDir.resolve(OLD + ".lock"));
      RefUpdate update = repository.updateRef(OLD);
      update.setNewObjectId(commits.get(0));
      long begun = System.nanoTime();
      assertEquals(RefUpdate.Result.LOCK_FAILURE, update.forceUpdate());
      assertTrue(System.nanoTime() - begun < 60_000_000_000L, "it waits for the lock once");
      assertEquals(commits.get(1), repository.exactRef(OLD).getObjectId());
    }
  }

  /** With files, neither a ref nor its reflog can be a file and a folder at once. */
  @ParameterizedTest
  @EnumSource
  void aNameBelowTheOldOneKeepsRefAndReflog(Lab.Format format) throws Exception {
    for (boolean isPacked : new boolean[] {false, true}) {
      try (RefdbRepository repository = withLoggedRef(format)) {
        if (isPacked) {
          Git.wrap(repository).packRefs().setAll(true).call();
        }
        String below = OLD + "/below";
        assertEquals(RefUpdate.Result.RENAMED, rename(repository, OLD, below, "renamed"));
        assertEquals(commits.get(1), repository.exactRef(below).getObjectId());
        List<String> log = reflog(repository, below);
        assertEquals(List.of("second", "first"), log.subList(1, log.size()));
        assertNull(repository.exactRef(OLD));
      }
    }
  }

  private RefdbRepository withLoggedRef(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r" + System.nanoTime() + ".git"), format);
    commits = Lab.objects(gitDir, 2).commits();
    RefdbRepository repository = Lab.open(gitDir);
    StoredConfig config = repository.getConfig();
    config.setBoolean("core", null, "logAllRefUpdates", true);
    config.save();
    set(repository, OLD, commits.get(0), "first");
    set(repository, OLD, commits.get(1), "second");
    return repository;
  }

  private static void set(Repository repository, String name, ObjectId id, String message) throws IOException {
    RefUpdate update = repository.updateRef(name);
    update.setNewObjectId(id);
    update.setRefLogMessage(message, false);
    update.forceUpdate();
  }

  private static RefUpdate.Result rename(Repository repository, String from, String to, String message)
      throws IOException {
    RefRename rename = repository.renameRef(from, to);
    if (message != null) {
      rename.setRefLogMessage(message);
    } else {
      rename.disableRefLog();
    }
    return rename.rename();
  }

  private static List<String> reflog(Repository repository, String name) throws IOException {
    Ref ref = repository.exactRef(name);
    return repository.getRefDatabase().getReflogReader(ref).getReverseEntries().stream()
        .map(entry -> entry.getComment().strip())
        .toList();
  }
}

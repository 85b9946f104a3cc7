package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.util.FileUtils;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.refdb.engine.RefListing;
import org.refdb.engine.EngineViews;

/**
 * Faults that ref caches for Gerrit are known to have. Each test fails on a cache with the fault. The numbers are those
 * of the list in docs/testing.md. Faults that take many refs to show are in {@link KnownFaultsAtSizeTest}.
 */
class KnownFaultsTest {
  private static final String MASTER = "refs/heads/master";

  @TempDir Path folder;
  private Path gitDir;
  private List<ObjectId> commits;
  private ObjectId tag;

  private RefdbRepository open(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), format);
    Lab.Objects objects = Lab.objects(gitDir, 5);
    commits = objects.commits();
    tag = objects.tag();
    return Lab.open(gitDir);
  }

  private static RefUpdate.Result set(Repository repository, String name, ObjectId id) throws Exception {
    return RefdbDatabaseTest.set(repository, name, id);
  }

  /** Changes a ref as another process would: with plain JGit, in an object that shares nothing with refdb's. */
  private void setElsewhere(String name, ObjectId id) throws Exception {
    try (Repository plain = Lab.openPlain(gitDir)) {
      set(plain, name, id);
    }
  }

  private static ObjectId id(Repository repository, String name) throws Exception {
    return repository.exactRef(name).getObjectId();
  }

  @ParameterizedTest
  @EnumSource
  void fault1HeadFollowsItsBranch(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      for (ObjectId commit : commits) {
        set(repository, MASTER, commit);
        assertEquals(commit, id(repository, "HEAD"));
        Set<ObjectId> ids =
            repository.getRefDatabase().getRefsByPrefix("").stream().map(Ref::getObjectId).collect(Collectors.toSet());
        assertEquals(Set.of(commit), ids);
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault2AnUpdateThroughHeadMovesTheBranch(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      assertNull(repository.exactRef(MASTER));
      for (ObjectId commit : commits) {
        assertEquals(
            commit == commits.get(0) ? RefUpdate.Result.NEW : RefUpdate.Result.FORCED, set(repository, "HEAD", commit));
        assertEquals(commit, id(repository, MASTER));
        assertTrue(repository.exactRef("HEAD").isSymbolic());
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault3AnUnbornHeadIsASymbolicRef(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      Ref head = repository.exactRef("HEAD");
      assertTrue(head.isSymbolic());
      assertEquals(MASTER, head.getTarget().getName());
      assertNull(head.getObjectId());
      assertTrue(repository.getRefDatabase().getRefs().isEmpty());
      assertFalse(repository.getRefDatabase().hasRefs());
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault4PseudoRefsAreFound(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, "ORIG_HEAD", commits.get(0));
      assertEquals(commits.get(0), id(repository, "ORIG_HEAD"));
      Lab.write(gitDir.resolve("FETCH_HEAD"), commits.get(1).name() + "\t\tbranch 'a' of elsewhere\n");
      assertEquals(commits.get(1), id(repository, "FETCH_HEAD"));
      assertEquals(
          Set.of("ORIG_HEAD", "FETCH_HEAD"),
          repository.getRefDatabase().getAdditionalRefs().stream().map(Ref::getName).collect(Collectors.toSet()));
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault5And10WhatOthersWriteIsSeenAtOnceByEveryQuestion(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      for (ObjectId commit : commits) {
        setElsewhere(MASTER, commit);
        assertEquals(commit, id(repository, MASTER));
        assertEquals(commit, repository.findRef("master").getObjectId());
        assertEquals(commit, repository.getRefDatabase().exactRef("refs/none", MASTER).get(MASTER).getObjectId());
        assertEquals(commit, repository.getRefDatabase().firstExactRef("refs/none", MASTER).getObjectId());
        assertEquals(commit, repository.getRefDatabase().getRefsByPrefix("refs/heads/").get(0).getObjectId());
        assertFalse(repository.getRefDatabase().getTipsWithSha1(commit).isEmpty());
        Git.wrap(repository).packRefs().setAll(true).call();
        assertEquals(commit, id(repository, MASTER));
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault6AFailedCompareAndSetSucceedsAfterReadingAgain(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      assertEquals(commits.get(0), id(repository, MASTER));
      setElsewhere(MASTER, commits.get(1));
      assertEquals(RefUpdate.Result.LOCK_FAILURE, move(repository, commits.get(0), commits.get(2)));
      assertEquals(RefUpdate.Result.FAST_FORWARD, move(repository, id(repository, MASTER), commits.get(2)));
    }
  }

  private static RefUpdate.Result move(Repository repository, ObjectId from, ObjectId to) throws Exception {
    RefUpdate update = repository.updateRef(MASTER);
    update.setExpectedOldObjectId(from);
    update.setNewObjectId(to);
    return update.update();
  }

  @ParameterizedTest
  @EnumSource
  void fault7And17TwoObjectsForOneRepositoryNeverDisagree(Lab.Format format) throws Exception {
    try (RefdbRepository one = open(format);
        RefdbRepository other = Lab.open(gitDir)) {
      for (ObjectId commit : commits) {
        set(one, MASTER, commit);
        assertEquals(commit, id(other, MASTER));
        CompletableFuture<ObjectId> elsewhere =
            CompletableFuture.supplyAsync(
                () -> {
                  try {
                    return id(other, "HEAD");
                  } catch (Exception e) {
                    throw new IllegalStateException(e);
                  }
                });
        assertEquals(commit, elsewhere.get());
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault8And15ADeletionAtAnyMomentIsNoErrorAndLeavesNoGhost(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      RefUpdate slower = repository.updateRef(MASTER);
      slower.setNewObjectId(commits.get(1));
      RefUpdate quicker = repository.updateRef(MASTER);
      quicker.setForceUpdate(true);
      assertEquals(RefUpdate.Result.FORCED, quicker.delete());
      assertEquals(RefUpdate.Result.NEW, slower.update());
      CompletableFuture<Void> deleting =
          CompletableFuture.runAsync(
              () -> {
                try {
                  for (int i = 0; i < 60; i++) {
                    RefUpdate update = repository.updateRef(MASTER);
                    update.setForceUpdate(true);
                    update.delete();
                  }
                } catch (Exception e) {
                  throw new IllegalStateException(e);
                }
              });
      for (int i = 0; i < 60; i++) {
        set(repository, MASTER, commits.get(i % 5));
        repository.getRefDatabase().getRefs();
      }
      deleting.get();
      RefUpdate last = repository.updateRef(MASTER);
      last.setForceUpdate(true);
      last.delete();
      assertNull(repository.exactRef(MASTER));
      assertTrue(repository.getRefDatabase().getRefs().isEmpty());
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault9TheSixPrefixesOfAFetchFindTheBranchOnce(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, "refs/heads/main", commits.get(0));
      set(repository, "refs/heads/other", commits.get(0));
      List<Ref> refs =
          repository
              .getRefDatabase()
              .getRefsByPrefix(
                  "main", "refs/main", "refs/tags/main", "refs/heads/main", "refs/remotes/main",
                  "refs/remotes/main/HEAD");
      assertEquals(List.of("refs/heads/main"), refs.stream().map(Ref::getName).toList());
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault11PackingPacks(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      set(repository, "refs/changes/01/1/1", commits.get(1));
      Git.wrap(repository).packRefs().setAll(true).call();
      assertEquals(commits.get(0), id(repository, MASTER));
      assertFalse(Files.exists(gitDir.resolve("refs/changes/01/1/1")));
      EmptyFolders.remove(gitDir.toFile(), Instant.now().plusSeconds(3600));
      assertFalse(Files.exists(gitDir.resolve("refs/changes/01")), "an empty folder is left");
      assertTrue(format == Lab.Format.REFTABLE || Files.isDirectory(gitDir.resolve("refs/heads")));
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault12HeadGoesAlongWithItsBranch(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      assertEquals(RefUpdate.Result.RENAMED, repository.renameRef(MASTER, "refs/heads/main").rename());
      assertEquals("refs/heads/main", repository.exactRef("HEAD").getTarget().getName());
      assertEquals(commits.get(0), id(repository, "HEAD"));
      assertNull(repository.exactRef(MASTER));
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault13ATagIsAmongTheTipsOfItsCommit(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      ObjectId commit = commits.get(4);
      set(repository, MASTER, commit);
      set(repository, "refs/tags/v1", tag);
      set(repository, "refs/heads/other", commits.get(0));
      assertEquals(Set.of("HEAD", MASTER, "refs/tags/v1"), tips(repository, commit));
      assertEquals(Set.of("refs/tags/v1"), tips(repository, tag));
      assertEquals(Set.of(), tips(repository, commits.get(1)));
      assertTrue(repository.getRefDatabase().hasFastTipsWithSha1());
    }
  }

  private static Set<String> tips(Repository repository, ObjectId id) throws Exception {
    return repository.getRefDatabase().getTipsWithSha1(id).stream().map(Ref::getName).collect(Collectors.toSet());
  }

  @ParameterizedTest
  @EnumSource
  void fault14GarbageIsCollected(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(4));
      set(repository, "refs/tags/v1", tag);
      Git.wrap(repository).gc().call();
      assertEquals(commits.get(4), id(repository, MASTER));
      assertEquals(tag, id(repository, "refs/tags/v1"));
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault16ARepositoryMadeAnewHasNoOldRefs(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
    }
    FileUtils.delete(gitDir.toFile(), FileUtils.RECURSIVE);
    try (RefdbRepository repository = open(format)) {
      assertNull(repository.exactRef(MASTER));
      assertTrue(repository.getRefDatabase().getRefs().isEmpty());
    }
  }

  /** Opens a repository so that the engine repeats an answer for an hour without looking at the disk. */
  private RefdbRepository openBelieving(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      repository.getConfig().setLong("refdb", null, "trustMillis", 3_600_000);
      repository.getConfig().save();
    }
    Lab.views().forget(gitDir);
    return Lab.open(gitDir);
  }

  @ParameterizedTest
  @EnumSource
  void fault18WhateverAnUpdateEndsWithTheNextQuestionSeesTheDisk(Lab.Format format) throws Exception {
    try (RefdbRepository repository = openBelieving(format)) {
      assertEquals(commits.get(0), id(repository, MASTER));
      setElsewhere(MASTER, commits.get(3));
      assertEquals(commits.get(0), id(repository, MASTER), "nothing here believes: this test shows nothing");
      assertEquals(RefUpdate.Result.LOCK_FAILURE, move(repository, commits.get(0), commits.get(4)));
      assertEquals(commits.get(3), id(repository, MASTER));

      setElsewhere(MASTER, commits.get(4));
      assertEquals(RefUpdate.Result.NO_CHANGE, move(repository, commits.get(4), commits.get(4)));
      assertEquals(commits.get(4), id(repository, MASTER));

      setElsewhere(MASTER, commits.get(2));
      assertEquals(RefUpdate.Result.REJECTED, move(repository, commits.get(2), commits.get(1)));
      assertEquals(commits.get(2), id(repository, MASTER));

      setElsewhere(MASTER, commits.get(1));
      setElsewhere("refs/heads/other", commits.get(1));
      BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
      batch.addCommand(new ReceiveCommand(commits.get(2), commits.get(3), MASTER));
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commits.get(4), "refs/heads/other"));
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commits.get(4), "refs/heads/new"));
      batch.setAtomic(false);
      batch.execute(new RevWalk(repository), NullProgressMonitor.INSTANCE);
      assertEquals(
          List.of(ReceiveCommand.Result.LOCK_FAILURE, ReceiveCommand.Result.LOCK_FAILURE, ReceiveCommand.Result.OK),
          batch.getCommands().stream().map(ReceiveCommand::getResult).toList());
      assertEquals(commits.get(1), id(repository, MASTER));
      assertEquals(commits.get(1), id(repository, "refs/heads/other"));
      assertEquals(commits.get(4), id(repository, "refs/heads/new"));
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault19WhatOneNodeWritesTheOtherSeesWithoutAnyWordBetweenThem(Lab.Format format) throws Exception {
    try (RefdbRepository one = open(format);
        EngineViews elsewhere = EngineViews.open(1 << 20, 0);
        RefdbRepository two = RefdbRepository.open(gitDir.toFile(), elsewhere)) {
      for (int i = 0; i < commits.size(); i++) {
        RefdbRepository writer = i % 2 == 0 ? one : two;
        RefdbRepository reader = i % 2 == 0 ? two : one;
        set(writer, MASTER, commits.get(i));
        assertEquals(commits.get(i), id(reader, MASTER));
        set(writer, "refs/heads/b" + i, commits.get(i));
        assertEquals(i + 2, reader.getRefDatabase().getRefsByPrefix("refs/heads/").size());
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault20AListThatIsBeingReadKeepsNobodyFromWriting(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      assertEquals(RefUpdate.Result.NEW, repository.updateRef("refs/remotes/origin/HEAD").link(MASTER));
      RefdbDatabase refs = (RefdbDatabase) repository.getRefDatabase();
      try (RefListing listing = refs.view().list(List.of("refs/"), List.of())) {
        assertEquals(RefUpdate.Result.FORCED, setByAnotherThread(repository, commits.get(1)));
        assertNotNull(listing.next());
      }
      assertEquals(commits.get(1), id(repository, "refs/remotes/origin/HEAD"));

      // A list follows the symbolic ref, and so notifies listeners of a change while the list is being read.
      List<Object> results = new ArrayList<>();
      repository
          .getListenerList()
          .addRefsChangedListener(
              event -> {
                if (event instanceof RefsNoticedEvent) {
                  results.add(setByAnotherThread(repository, commits.get(2)));
                }
              });
      setElsewhere(MASTER, commits.get(3));
      CGit.read(gitDir, "pack-refs", "--all");
      assertEquals(2, refs.getRefsByPrefix("refs/").size());
      assertEquals(List.of(RefUpdate.Result.FORCED), results);
    }
  }

  /** Sets the ref in another thread. Returns the result, or the exception if that fails or does not end in time. */
  private static Object setByAnotherThread(Repository repository, ObjectId id) {
    CompletableFuture<Object> writing =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return set(repository, MASTER, id);
              } catch (Exception e) {
                return e;
              }
            },
            task -> new Thread(task).start());
    try {
      return writing.get(30, TimeUnit.SECONDS);
    } catch (Exception e) {
      return e;
    }
  }

  @ParameterizedTest
  @EnumSource
  void listenersHearOfEveryChangeOnce(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      AtomicInteger events = new AtomicInteger();
      repository.getListenerList().addRefsChangedListener(event -> events.incrementAndGet());
      for (int change = 1; change <= 3; change++) {
        set(repository, MASTER, commits.get(change));
        assertEquals(change, events.get());
        repository.getRefDatabase().refresh(); // looking again is no news
        repository.getRefDatabase().getRefs();
        assertEquals(change, events.get(), "our own change is told twice");
      }
      setElsewhere(MASTER, commits.get(0));
      assertEquals(3, events.get());
      repository.exactRef(MASTER);
      assertEquals(4, events.get());
    }
  }

  @ParameterizedTest
  @EnumSource
  void whoHasOnlyReadHearsOfTheFirstChange(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      setElsewhere(MASTER, commits.get(0));
      AtomicInteger events = new AtomicInteger();
      repository.getListenerList().addRefsChangedListener(event -> events.incrementAndGet());
      repository.exactRef(MASTER);
      assertEquals(0, events.get());
      setElsewhere(MASTER, commits.get(1));
      repository.exactRef(MASTER);
      assertEquals(1, events.get());
    }
  }

  @ParameterizedTest
  @EnumSource
  void aConversionByAnotherProcessIsNoticed(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      set(repository, MASTER, commits.get(0));
      set(repository, "refs/tags/v1", tag);
      try (var plain = Lab.openPlain(gitDir)) {
        plain.convertRefStorage(format == Lab.Format.FILES ? "reftable" : "refdir", false, false);
      }
      assertEquals(commits.get(0), id(repository, MASTER));
      List<String> names = new ArrayList<>(repository.getRefDatabase().getRefs().stream().map(Ref::getName).toList());
      assertEquals(List.of("HEAD", MASTER, "refs/tags/v1"), names);
      assertEquals(RefUpdate.Result.FORCED, set(repository, MASTER, commits.get(1)));
      try (Repository plain = Lab.openPlain(gitDir)) {
        assertEquals(commits.get(1), id(plain, MASTER));
      }
    }
  }
}

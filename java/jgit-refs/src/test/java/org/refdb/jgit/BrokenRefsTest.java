package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.api.PackRefsCommand;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.internal.storage.file.GC;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.BrokenRef;
import org.refdb.engine.EngineException;

/**
 * Files below refs/ that are no refs, as power cuts, editors and backups leave them, affect only those who ask for
 * them, and garbage collection.
 */
class BrokenRefsTest {
  private static final String MASTER = "refs/heads/master";
  private static final String EMPTY = "refs/changes/77/77/1";
  private static final String BACKUP = "refs/heads/x.bak";
  private static final String README = "refs/README";
  private static final List<String> BROKEN = List.of(README, EMPTY, BACKUP);

  @TempDir Path folder;
  private Path gitDir;
  private List<ObjectId> commits;

  @BeforeEach
  void breakRefs() throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.FILES);
    commits = Lab.objects(gitDir, 3).commits();
    try (FileRepository plain = Lab.openPlain(gitDir)) {
      set(plain, MASTER, commits.get(0));
      set(plain, BACKUP, commits.get(1));
      set(plain, EMPTY, commits.get(2));
      plain.getRefDatabase().packRefs(NullProgressMonitor.INSTANCE, new PackRefsCommand(plain).setAll(true));
    }
    Lab.write(gitDir.resolve(EMPTY), "");
    Lab.write(gitDir.resolve(BACKUP), "what an editor left behind, longer than an object id is\n");
    Lab.write(gitDir.resolve(README), "Do not touch.\n");
  }

  private static RefUpdate.Result set(Repository repository, String name, ObjectId id) throws IOException {
    RefUpdate update = repository.updateRef(name);
    update.setNewObjectId(id);
    return update.forceUpdate();
  }

  private static List<String> names(List<Ref> refs) {
    return refs.stream().map(Ref::getName).toList();
  }

  @Test
  void brokenFilesAreLeftOutOfEveryListWithWhatIsPackedBeneath() throws Exception {
    try (RefdbRepository repository = Lab.open(gitDir)) {
      RefdbDatabase refs = (RefdbDatabase) repository.getRefDatabase();
      for (int round = 0; round < 2; round++) {
        assertEquals(List.of("HEAD", MASTER), names(refs.getRefs()));
        assertEquals(List.of(MASTER), names(refs.getRefsByPrefix("refs/heads/")));
        assertEquals(List.of(), names(refs.getRefsByPrefix("refs/changes/77/", README)));
        assertTrue(refs.hasRefs());
        assertEquals(2, refs.getTipsWithSha1(commits.get(0)).size());
        assertEquals(0, refs.getTipsWithSha1(commits.get(2)).size());
      }
      assertEquals(BROKEN, refs.view().broken().stream().map(BrokenRef::name).toList());
      assertEquals(3, refs.view().stats().broken());
      assertEquals(List.of(), refs.view().takeUnreportedBroken(), "they were logged when they were met");
      assertEquals(BROKEN, refs.view().verify().broken().stream().map(BrokenRef::name).toList());
      assertEquals(List.of(), refs.view().verify().differences());
    }
  }

  @Test
  void askingForABrokenRefIsAnErrorThatNamesItsFile() throws Exception {
    try (RefdbRepository repository = Lab.open(gitDir)) {
      for (String name : BROKEN) {
        EngineException error = assertThrows(EngineException.class, () -> repository.exactRef(name));
        assertEquals(EngineException.Kind.BROKEN_REF, error.kind());
        assertEquals(name, error.refName().get());
        assertTrue(error.getMessage().contains(gitDir.resolve(name).toString()), error.getMessage());
      }
      assertEquals(commits.get(0), repository.exactRef(MASTER).getObjectId());
    }
  }

  @Test
  void aBrokenRefFailedQuestionsAboutOthers() throws Exception {
    String badTag = "refs/tags/master";
    Lab.write(gitDir.resolve(badTag), "no object id at all\n");
    try (RefdbRepository repository = Lab.open(gitDir);
        FileRepository plain = Lab.openPlain(gitDir)) {
      for (Repository each : List.of(repository, plain)) {
        RefDatabase refs = each.getRefDatabase();
        assertEquals(commits.get(0), each.resolve("master"));
        assertEquals(MASTER, each.findRef("master").getName());
        assertEquals(MASTER, refs.firstExactRef(badTag, MASTER).getName());
        assertEquals(Set.of(MASTER), refs.exactRef(badTag, MASTER).keySet());
      }
      RefDatabase refs = repository.getRefDatabase();
      assertThrows(EngineException.class, () -> refs.firstExactRef("refs/heads/none", badTag));
      assertThrows(EngineException.class, () -> refs.exactRef("refs/heads/none", badTag, README));
      Lab.write(gitDir.resolve("HEAD"), "no object id at all\n");
      assertEquals(1, refs.getTipsWithSha1(commits.get(0)).size());
    }
  }

  @Test
  void aSymbolicRefToABrokenOneLeadsNowhere() throws Exception {
    Lab.write(gitDir.resolve("HEAD"), "ref: " + BACKUP + "\n");
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertNull(repository.exactRef("HEAD").getObjectId());
      assertEquals(List.of(MASTER), names(repository.getRefDatabase().getRefs()));
    }
  }

  @Test
  void aBrokenRefIsWrittenAgainAndDeleted() throws Exception {
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertEquals(RefUpdate.Result.NEW, set(repository, BACKUP, commits.get(2)));
      assertEquals(commits.get(2), repository.exactRef(BACKUP).getObjectId());
      for (String name : List.of(EMPTY, README)) {
        RefUpdate update = repository.updateRef(name);
        update.setForceUpdate(true);
        assertEquals(RefUpdate.Result.FORCED, update.delete());
        assertNull(repository.exactRef(name), "not even what was packed beneath is left");
        assertFalse(Files.exists(gitDir.resolve(name)));
      }
      assertEquals(List.of("HEAD", MASTER, BACKUP), names(repository.getRefDatabase().getRefs()));
    }
    try (FileRepository plain = Lab.openPlain(gitDir)) {
      assertEquals(List.of("HEAD", MASTER, BACKUP), names(plain.getRefDatabase().getRefs()));
    }
  }

  @Test
  void whoExpectsAValueOfABrokenRefIsRefusedAndNobodyElseIs() throws Exception {
    try (RefdbRepository repository = Lab.open(gitDir)) {
      RefUpdate update = repository.updateRef(BACKUP);
      update.setExpectedOldObjectId(commits.get(1));
      update.setNewObjectId(commits.get(2));
      assertEquals(RefUpdate.Result.LOCK_FAILURE, update.forceUpdate());

      RefDatabase refs = repository.getRefDatabase();
      BatchRefUpdate batch = refs.newBatchUpdate().setAllowNonFastForwards(true);
      batch.addCommand(new ReceiveCommand(commits.get(1), commits.get(2), BACKUP));
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commits.get(1), EMPTY));
      batch.addCommand(new ReceiveCommand(commits.get(0), commits.get(1), MASTER));
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commits.get(1), "refs/heads/new"));
      batch.setAtomic(false);
      try (RevWalk walk = new RevWalk(repository)) {
        batch.execute(walk, NullProgressMonitor.INSTANCE);
      }
      assertEquals(
          List.of(
              ReceiveCommand.Result.LOCK_FAILURE,
              ReceiveCommand.Result.OK,
              ReceiveCommand.Result.OK,
              ReceiveCommand.Result.OK),
          batch.getCommands().stream().map(ReceiveCommand::getResult).toList());
      assertEquals(commits.get(1), repository.exactRef(EMPTY).getObjectId());
    }
  }

  /** Nothing is collected, because nobody knows which objects a broken ref needs. */
  @Test
  void garbageIsNotCollectedAsLongAsARefIsBroken() throws Exception {
    try (RefdbRepository repository = Lab.open(gitDir)) {
      for (int round = 0; round < 2; round++) {
        GC gc = new GC(repository);
        gc.setExpire(Instant.now());
        gc.setPackExpire(Instant.now());
        IOException error =
            assertThrows(IOException.class, round == 0 ? () -> gc.gc().get() : () -> gc.prune(Set.of()));
        for (String name : BROKEN) {
          assertTrue(error.getMessage().contains(gitDir.resolve(name).toString()), error.getMessage());
        }
        for (ObjectId commit : commits) {
          assertTrue(repository.getObjectDatabase().has(commit), "only a broken ref held it");
        }
      }
      assertEquals(RefUpdate.Result.NEW, set(repository, EMPTY, commits.get(2)));
      for (String name : List.of(BACKUP, README)) {
        RefUpdate update = repository.updateRef(name);
        update.setForceUpdate(true);
        update.delete();
      }
      Git.wrap(repository).gc().call();
      assertEquals(commits.get(2), repository.exactRef(EMPTY).getObjectId());
    }
  }
}

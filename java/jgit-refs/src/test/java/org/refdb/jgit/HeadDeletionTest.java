package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Tests deletions through HEAD, of the branch to which it leads, and deletions of HEAD itself. */
class HeadDeletionTest {
  private static final String MAIN = "refs/heads/main";

  @TempDir Path folder;
  private Path gitDir;
  private ObjectId id;

  private void prepare(Lab.Format format, boolean detached) throws Exception {
    gitDir = Lab.create(folder.resolve(format + "-" + detached + ".git"), format);
    id = Lab.objects(gitDir, 1).commits().get(0);
    CGit.read(gitDir, "update-ref", MAIN, id.name());
    CGit.read(gitDir, "symbolic-ref", "HEAD", MAIN);
    if (detached) {
      CGit.read(gitDir, "update-ref", "--no-deref", "HEAD", id.name());
    }
  }

  private RefUpdate.Result delete(RefdbRepository repository, boolean detach) throws Exception {
    RefUpdate update = repository.updateRef(Constants.HEAD, detach);
    update.setForceUpdate(true);
    return update.delete();
  }

  private ReceiveCommand deleteInBatch(RefdbRepository repository, boolean atomic) throws Exception {
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    batch.setAtomic(atomic);
    batch.setAllowNonFastForwards(true);
    ReceiveCommand head = new ReceiveCommand(id, ObjectId.zeroId(), Constants.HEAD);
    batch.addCommand(head, new ReceiveCommand(ObjectId.zeroId(), id, "refs/heads/beside"));
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    return head;
  }

  @ParameterizedTest
  @EnumSource
  void aDeletedHeadLeftAFolderThatGitTookForNoRepository(Lab.Format format) throws Exception {
    prepare(format, true);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertEquals(RefUpdate.Result.REJECTED_OTHER_REASON, delete(repository, false));
      assertEquals(RefUpdate.Result.REJECTED_OTHER_REASON, delete(repository, true));
      assertEquals(RefUpdate.Result.REJECTED_OTHER_REASON, repository.renameRef("HEAD", "refs/heads/moved").rename());
      for (boolean atomic : new boolean[] {true, false}) {
        ReceiveCommand head = deleteInBatch(repository, atomic);
        assertEquals(ReceiveCommand.Result.REJECTED_OTHER_REASON, head.getResult());
        assertTrue(head.getMessage().startsWith("HEAD is not deleted, because"), head.getMessage());
        assertEquals(atomic, repository.exactRef("refs/heads/beside") == null,
            "the rest of a batch goes on unless atomic");
      }
    }
    assertEquals(id.name(), CGit.read(gitDir, "rev-parse", "--verify", "HEAD"));
    assertEquals("", CGit.read(gitDir, "for-each-ref", "refs/heads/moved"));
  }

  /** A symbolic HEAD stays: a deletion through it deletes its branch, and a deletion of HEAD itself is refused. */
  @ParameterizedTest
  @EnumSource
  void aDeletionThroughHeadDeletesTheBranch(Lab.Format format) throws Exception {
    prepare(format, false);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertEquals(RefUpdate.Result.REJECTED_OTHER_REASON, delete(repository, true));
      assertEquals(RefUpdate.Result.FORCED, delete(repository, false));
      CGit.read(gitDir, "update-ref", MAIN, id.name());
      assertEquals(ReceiveCommand.Result.OK, deleteInBatch(repository, true).getResult());
    }
    assertEquals(MAIN, CGit.read(gitDir, "symbolic-ref", "HEAD"));
    assertEquals("", CGit.read(gitDir, "for-each-ref", MAIN));
  }
}

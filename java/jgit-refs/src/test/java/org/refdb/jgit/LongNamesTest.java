package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Names that are too long for the index of a reftable. */
class LongNamesTest {
  private static final int MAX = 2008;

  @TempDir Path folder;

  private static String name(int length) {
    return "refs/heads/" + "n".repeat(length - "refs/heads/".length());
  }

  private static void batch(Repository repository, boolean atomic, ReceiveCommand... commands)
      throws Exception {
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate().setAtomic(atomic).addCommand(commands);
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
  }

  @Test
  void aNameTooLongForAnIndexIsRejectedWithItsReasonByEveryWrite() throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.REFTABLE);
    ObjectId id = Lab.objects(gitDir, 1).commits().get(0);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertEquals(RefUpdate.Result.NEW, RefdbDatabaseTest.set(repository, name(MAX), id));
      assertEquals(RefUpdate.Result.REJECTED_OTHER_REASON, RefdbDatabaseTest.set(repository, name(MAX + 1), id));
      assertNotEquals(RefUpdate.Result.NEW, repository.updateRef(name(MAX + 1)).link(name(MAX)));
      assertNotEquals(RefUpdate.Result.RENAMED, repository.renameRef(name(MAX), name(MAX + 1)).rename());

      for (boolean atomic : new boolean[] {true, false}) {
        ReceiveCommand tooLong = new ReceiveCommand(ObjectId.zeroId(), id, name(MAX + 1));
        ReceiveCommand beside = new ReceiveCommand(ObjectId.zeroId(), id, "refs/heads/beside-" + atomic);
        batch(repository, atomic, tooLong, beside);
        assertEquals(ReceiveCommand.Result.REJECTED_OTHER_REASON, tooLong.getResult());
        assertTrue(tooLong.getMessage().contains("entry too large"), tooLong.getMessage());
        assertEquals(!atomic, beside.getResult() == ReceiveCommand.Result.OK, String.valueOf(beside));
      }
      assertNull(repository.exactRef(name(MAX + 1)));
      assertEquals(id, repository.exactRef(name(MAX)).getObjectId());
    }
  }
}

package org.refdb.jgit;

import java.io.IOException;
import org.eclipse.jgit.errors.IncorrectObjectTypeException;
import org.eclipse.jgit.errors.MissingObjectException;
import org.eclipse.jgit.lib.AnyObjectId;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.revwalk.RevWalk;
import org.refdb.engine.BatchResult;
import org.refdb.engine.EngineException;
import org.refdb.engine.Planted;
import org.refdb.engine.RefBatch;

/** Renames a ref with its reflog in one transaction, and a HEAD that leads to it in another. */
final class RefdbRename extends RefRename {
  private final RefdbDatabase database;

  RefdbRename(RefdbDatabase database, RefUpdate from, RefUpdate to) {
    super(from, to);
    this.database = database;
  }

  @Override
  protected RefUpdate.Result doRename() throws IOException {
    try {
      return renameBoth();
    } catch (NotAgreedException e) {
      if (e.why() == NotAgreedException.Why.DIFFERS) {
        return RefUpdate.Result.LOCK_FAILURE;
      }
      throw e;
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        return RefUpdate.Result.LOCK_FAILURE;
      }
      throw e;
    }
  }

  private RefUpdate.Result renameBoth() throws IOException {
    Ref from = database.exactRef(source.getName());
    if (from == null || !AnyObjectId.isEqual(source.getOldObjectId(), from.getObjectId())) {
      return RefUpdate.Result.LOCK_FAILURE;
    }
    if (from.isSymbolic()) {
      return RefUpdate.Result.IO_FAILURE;
    }
    if (database.exactRef(destination.getName()) != null) {
      return RefUpdate.Result.LOCK_FAILURE;
    }
    // HEAD is changed first, as in JGit, so that the branch to which HEAD leads is never deleted, and that the reflog
    // of HEAD records the new branch.
    boolean isHead = needToUpdateHEAD() && !(Planted.ON && Planted.is("refs-12"));
    if (isHead && !linkHead(source.getName(), destination.getName())) {
      return RefUpdate.Result.LOCK_FAILURE;
    }
    BatchResult result;
    try {
      result = database.commit(edits(from));
    } catch (IOException | RuntimeException e) {
      if (isHead) {
        try {
          linkHeadBack();
        } catch (IOException | RuntimeException later) {
          e.addSuppressed(later);
        }
      }
      throw e;
    }
    if (result.rejections().isEmpty()) {
      return RefUpdate.Result.RENAMED;
    }
    if (isHead) {
      linkHeadBack();
    }
    return Results.ofUpdate(result.rejections().get(0));
  }

  private boolean linkHead(String from, String to) throws IOException {
    Edits edits = new Edits(true, Edits.committer(database, getRefLogIdent(), false));
    RefBatch batch = edits.edit(Constants.HEAD).link(to).expectLink(from).end(false, null, false);
    return database.commit(batch).rejections().isEmpty();
  }

  /** Undoes the change of HEAD, unless the ref has been renamed nevertheless. */
  private void linkHeadBack() throws IOException {
    Ref to = database.exactRef(destination.getName());
    boolean isThere = to != null && to.getObjectId() != null;
    if (!isThere || database.exactRef(source.getName()) != null || !isOfSource(to.getObjectId())) {
      linkHead(destination.getName(), source.getName());
    }
  }

  /**
   * Returns whether the new name has the value of the old one, or a descendant; otherwise another process has created
   * it. A rename that failed may have been done: where its outcome was undecided, somebody may have finished it since,
   * and so may a second attempt, which fails then. The renamed branch may have moved on by now.
   */
  private boolean isOfSource(ObjectId id) throws IOException {
    ObjectId old = source.getOldObjectId();
    if (AnyObjectId.isEqual(old, id)) {
      return true;
    }
    try (RevWalk walk = new RevWalk(database.repository())) {
      return walk.isMergedInto(walk.parseCommit(old), walk.parseCommit(id));
    } catch (MissingObjectException | IncorrectObjectTypeException e) {
      return false;
    }
  }

  private RefBatch edits(Ref from) throws IOException {
    byte[] id = Edits.raw(from.getObjectId());
    String message = getRefLogMessage();
    boolean isLogged = message != null && !message.isEmpty();
    Edits edits = new Edits(true, Edits.committer(database, getRefLogIdent(), false));
    edits.describe(database.repository(), from.getObjectId());
    edits.edit(from.getName()).delete().expectId(id).end(false, null, false);
    RefBatch.Edit taker = edits.edit(destination.getName()).set(id).expectNothing().takeLog(from.getName());
    taker.end(false, isLogged ? message : null, false);
    return edits.batch();
  }
}

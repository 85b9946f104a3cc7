package org.refdb.jgit;

import java.io.IOException;
import org.eclipse.jgit.lib.AnyObjectId;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.refdb.engine.BatchResult;
import org.refdb.engine.EngineException;
import org.refdb.engine.Planted;
import org.refdb.engine.RefBatch;

/**
 * Updates a single ref.
 *
 * <p>JGit reads the ref, decides (is it a fast-forward?) and writes, all under a lock. Here nothing is locked during
 * the decision: the write names the value that was read, and the engine refuses the write if the ref has another
 * value by then. In that case the ref is read and the decision made again, as if the lock had been taken later. Other
 * writers of the same ref can still make the update fail, for example, if the caller named the value that it expects,
 * if the new value is no fast-forward of theirs, if they are faster {@value #ATTEMPTS_MAX} times in a row, if one of
 * them holds the lock that the engine's write needs for too long, or if the global ref database has the value of one of
 * them and the disk does not.
 */
final class RefdbUpdate extends RefUpdate {
  /**
   * Maximum number of attempts. An attempt is repeated only if the ref no longer had the value that was read, which
   * does not happen this often by chance.
   */
  private static final int ATTEMPTS_MAX = 1000;

  private final RefdbDatabase database;
  private RevWalk walk;
  /** Whether the update applies to the ref to which a symbolic ref leads. */
  private boolean deref;
  /** The ref as it was read, on which the write is based. Null if there was none, or a broken one. */
  private Ref basis;
  private boolean isBroken;
  private boolean overtaken;

  RefdbUpdate(RefdbDatabase database, Ref ref) {
    super(ref);
    this.database = database;
  }

  @Override
  protected RefdbDatabase getRefDatabase() {
    return database;
  }

  @Override
  protected Repository getRepository() {
    return database.repository();
  }

  @Override
  public Result update(RevWalk revWalk) throws IOException {
    walk = revWalk;
    return persist(() -> super.update(revWalk));
  }

  @Override
  public Result delete(RevWalk revWalk) throws IOException {
    return persist(() -> super.delete(revWalk));
  }

  @Override
  public Result link(String target) throws IOException {
    return persist(() -> super.link(target));
  }

  private interface Attempt {
    Result make() throws IOException;
  }

  private Result persist(Attempt attempt) throws IOException {
    Result result = Result.NOT_ATTEMPTED;
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
      overtaken = false;
      result = attempt.make();
      if (!overtaken) {
        break;
      }
      Thread.onSpinWait();
    }
    return result;
  }

  @Override
  protected boolean tryLock(boolean followLinks) throws IOException {
    deref = followLinks;
    database.refresh(); // whoever holds a lock reads from the disk
    isBroken = false;
    try {
      basis = database.exactRef(getName());
    } catch (EngineException e) {
      if (e.kind() != EngineException.Kind.BROKEN_REF) {
        throw e;
      }
      isBroken = true; // its value is not known, so nothing can be compared with it
    }
    setOldObjectId(basis == null ? null : basis.getObjectId());
    return true;
  }

  @Override
  protected void unlock() {
    basis = null;
    isBroken = false;
  }

  @Override
  protected Result doUpdate(Result status) throws IOException {
    ObjectId id = getNewObjectId();
    Edits edits = edits();
    if (AnyObjectId.isEqual(ObjectId.zeroId(), id)) {
      if (getName().equals(Constants.HEAD)) {
        // Git takes a folder without HEAD for no repository.
        return Result.REJECTED_OTHER_REASON;
      }
      return delete(edits, status);
    }
    edits.describe(walk, id);
    RefBatch.Edit edit = expectBasis(edits.edit(getName()).set(Edits.raw(id)));
    return commit(edit.end(deref, message(status), isForceRefLog()), status);
  }

  @Override
  protected Result doDelete(Result status) throws IOException {
    if (Planted.ON && Planted.is("refs-15")) {
      return status; // the fault: the ref is not deleted on disk
    }
    return delete(edits(), status);
  }

  private Result delete(Edits edits, Result status) throws IOException {
    if (isBroken) {
      return commit(edits.edit(getName()).delete().expectNothing().end(false, null, false), Result.FORCED);
    }
    Ref gone = basis == null || !deref ? basis : basis.getLeaf();
    if (gone == null || gone.getStorage() == Ref.Storage.NEW) {
      return status;
    }
    return commit(expectBasis(edits.edit(gone.getName()).delete()).end(false, null, false), status);
  }

  @Override
  protected Result doLink(String target) throws IOException {
    deref = false;
    RefBatch.Edit edit = expectBasis(edits().edit(getName()).link(target));
    Result result = getRef().getStorage() == Ref.Storage.NEW ? Result.NEW : Result.FORCED;
    return commit(edit.end(false, getRefLogMessage(), isForceRefLog()), result);
  }

  private Edits edits() throws IOException {
    return Edits.mending(true, Edits.committer(database, getRefLogIdent(), false));
  }

  /** Sets the value that the engine must find when it writes. */
  private RefBatch.Edit expectBasis(RefBatch.Edit edit) {
    if (Planted.ON && Planted.is("refs-08") && basis == null) {
      boolean wasThere = getRef().getObjectId() != null;
      if (wasThere && getExpectedOldObjectId() == null && getOldObjectId() == null) {
        throw new IllegalStateException(getName() + " is gone");
      }
    }
    if (basis != null && basis.isSymbolic() && !deref) {
      return edit.expectLink(basis.getTarget().getName());
    }
    return basis == null || basis.getObjectId() == null
        ? edit.expectNothing()
        : edit.expectId(Edits.raw(basis.getObjectId()));
  }

  private String message(Result status) {
    String message = getRefLogMessage();
    return message != null && isRefLogIncludingResult()
        ? Results.withResult(message, Results.inWords(status))
        : message;
  }

  private Result commit(RefBatch batch, Result success) throws IOException {
    BatchResult result;
    try {
      result = database.commit(batch);
    } catch (NotAgreedException e) {
      if (e.why() == NotAgreedException.Why.DIFFERS) {
        return Result.LOCK_FAILURE;
      }
      throw e;
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        return Result.LOCK_FAILURE;
      }
      throw e;
    }
    if (result.rejections().isEmpty()) {
      return success;
    }
    BatchResult.Rejection rejection = result.rejections().get(0);
    overtaken = Results.isStale(rejection);
    return Results.ofUpdate(rejection);
  }
}

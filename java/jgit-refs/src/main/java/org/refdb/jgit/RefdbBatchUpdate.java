package org.refdb.jgit;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.eclipse.jgit.errors.MissingObjectException;
import org.eclipse.jgit.lib.AnyObjectId;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ProgressMonitor;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.transport.ReceiveCommand.Result;
import org.refdb.engine.BatchResult;
import org.refdb.engine.EngineException;
import org.refdb.engine.RefBatch;

/**
 * Carries out commands either atomically or each for itself, in one transaction of the engine unless commands that are
 * not atomic depend on each other, or the global ref database refuses some of them.
 *
 * <p>Symbolic refs may be among the commands' refs, in an atomic batch as well.
 */
final class RefdbBatchUpdate extends BatchRefUpdate {
  private final RefdbDatabase database;

  RefdbBatchUpdate(RefdbDatabase database) {
    super(database);
    this.database = database;
  }

  @Override
  public void execute(RevWalk walk, ProgressMonitor monitor, List<String> options) throws IOException {
    List<ReceiveCommand> pending = pending();
    if (pending.isEmpty() || !blockUntilTimestamps(MAX_WAIT)) {
      return;
    }
    if (options != null) {
      setPushOptions(options);
    }
    if (dependOnEachOther(pending)) {
      if (!isAtomic()) {
        // Which of the commands succeed depends on their order. JGit's is used: one by one, deletions first.
        super.execute(walk, monitor, options);
        return;
      }
      requireDifferentNames(pending);
    }
    monitor.beginTask("Update references", pending.size());
    try {
      // A single command is atomic anyway, and JGit then treats it like any single update.
      boolean whole = isAtomic() && pending.size() > 1;
      if (check(walk, whole, pending)) {
        carryOut(walk, whole, pending());
      }
      monitor.update(pending.size());
    } finally {
      monitor.endTask();
    }
  }

  private List<ReceiveCommand> pending() {
    return ReceiveCommand.filter(getCommands(), Result.NOT_ATTEMPTED);
  }

  /** Returns whether a ref is named twice, or one of the refs lies below another. */
  private static boolean dependOnEachOther(List<ReceiveCommand> commands) {
    TreeSet<String> names = new TreeSet<>();
    for (ReceiveCommand command : commands) {
      if (!names.add(command.getRefName())) {
        return true;
      }
    }
    for (String name : names) {
      String below = names.ceiling(name + '/');
      if (below != null && below.startsWith(name + '/')) {
        return true;
      }
    }
    return false;
  }

  private static void requireDifferentNames(List<ReceiveCommand> commands) throws IOException {
    Set<String> names = new HashSet<>();
    for (ReceiveCommand command : commands) {
      if (!names.add(command.getRefName())) {
        throw new IOException("ref '" + command.getRefName() + "' is named twice in one atomic update");
      }
    }
  }

  /**
   * Rejects impossible commands, without comparing the values of their refs with the expected ones.
   *
   * @return whether to go on
   */
  private boolean check(RevWalk walk, boolean whole, List<ReceiveCommand> commands) throws IOException {
    for (ReceiveCommand command : commands) {
      if (isMissing(walk, command.getNewId()) || (!whole && isMissing(walk, command.getOldId()))) {
        command.setResult(Result.REJECTED_MISSING_OBJECT);
      } else if (!whole && command.getType() == ReceiveCommand.Type.DELETE && isCheckedOut(command.getRefName())) {
        command.setResult(Result.REJECTED_CURRENT_BRANCH);
      } else {
        checkFastForward(walk, whole, command);
      }
      if (whole && command.getResult() != Result.NOT_ATTEMPTED) {
        ReceiveCommand.abort(commands);
        return false;
      }
    }
    return true;
  }

  private static boolean isMissing(RevWalk walk, ObjectId id) throws IOException {
    if (isZero(id)) {
      return false;
    }
    try {
      walk.parseAny(id);
      return false;
    } catch (MissingObjectException e) {
      return true;
    }
  }

  private void checkFastForward(RevWalk walk, boolean whole, ReceiveCommand command) throws IOException {
    if (command.getNewSymref() != null || (whole && isAllowNonFastForwards())) {
      return;
    }
    command.updateType(walk);
    // Only an atomic batch is rejected here. In other batches JGit compares the old value first, and reports a changed
    // ref as such.
    if (whole && isRewind(command)) {
      command.setResult(Result.REJECTED_NONFASTFORWARD);
    }
  }

  private boolean isRewind(ReceiveCommand command) {
    return !isAllowNonFastForwards() && command.getType() == ReceiveCommand.Type.UPDATE_NONFASTFORWARD;
  }

  private boolean isCheckedOut(String name) throws IOException {
    if (!name.startsWith(Constants.R_HEADS) || database.repository().isBare()) {
      return false;
    }
    for (Ref head = database.exactRef(Constants.HEAD); head != null && head.isSymbolic(); head = head.getTarget()) {
      if (head.getTarget().getName().equals(name)) {
        return true;
      }
    }
    return false;
  }

  private void carryOut(RevWalk walk, boolean whole, List<ReceiveCommand> commands) throws IOException {
    if (commands.isEmpty()) {
      return;
    }
    Edits edits = Edits.mending(whole, Edits.committer(database, getRefLogIdent(), whole));
    for (ReceiveCommand command : commands) {
      add(walk, edits, command);
    }
    BatchResult result;
    try {
      result = database.commit(edits.batch());
      if (whole && isBlockedByLooseRef(result) && dependOnEachOther(commands)) {
        // The lock of a/b needs a folder in the place of the loose file of a, which the same transaction deletes.
        database.view().pack(commands.stream().map(ReceiveCommand::getRefName).toList());
        result = database.commit(edits.batch());
      }
    } catch (NotAgreedException e) {
      if (!whole && commands.size() > 1 && e.mayHelpToDivide()) {
        // The refusal of one command is no reason to refuse another.
        int half = commands.size() / 2;
        carryOut(walk, false, commands.subList(0, half));
        carryOut(walk, false, commands.subList(half, commands.size()));
      } else {
        refuse(e, commands);
      }
      return;
    } catch (EngineException e) {
      if (e.kind() != EngineException.Kind.LOCKED) {
        throw e;
      }
      commands.get(0).setResult(Result.LOCK_FAILURE, e.getMessage());
      ReceiveCommand.abort(commands);
      return;
    }
    report(result, commands);
  }

  private static void refuse(NotAgreedException why, List<ReceiveCommand> commands) {
    boolean isLate = why.why() == NotAgreedException.Why.DIFFERS;
    commands.get(0).setResult(isLate ? Result.LOCK_FAILURE : Result.REJECTED_OTHER_REASON, why.getMessage());
    ReceiveCommand.abort(commands);
  }

  private boolean isBlockedByLooseRef(BatchResult result) throws IOException {
    return !result.done()
        && result.rejections().get(0).reason() == BatchResult.Reason.NAME_CONFLICT
        && !database.view().isReftable();
  }

  private void add(RevWalk walk, Edits edits, ReceiveCommand command) throws IOException {
    RefBatch.Edit edit = edits.edit(command.getRefName());
    boolean isLink = command.getOldSymref() != null || command.getNewSymref() != null;
    if (command.getNewSymref() != null) {
      edit.link(command.getNewSymref());
    } else if (isRewind(command)) {
      edit.verify();
    } else if (isZero(command.getNewId())) {
      edit.delete();
    } else {
      edits.describe(walk, command.getNewId());
      edit.set(Edits.raw(command.getNewId()));
    }
    if (command.getOldSymref() != null) {
      edit.expectLink(command.getOldSymref());
    } else if (!isZero(command.getOldId())) {
      edit.expectId(Edits.raw(command.getOldId()));
    } else if (command.getType() == ReceiveCommand.Type.DELETE) {
      edit.expectAnything();
    } else {
      edit.expectNothing();
    }
    edit.end(!isLink, message(command), isForceRefLog(command));
  }

  private String message(ReceiveCommand command) {
    if (isRefLogDisabled(command)) {
      return null;
    }
    String message = getRefLogMessage(command);
    return isRefLogIncludingResult(command)
        ? Results.withResult(message, Results.inWords(command, isAllowNonFastForwards()))
        : message;
  }

  private void report(BatchResult result, List<ReceiveCommand> commands) {
    for (BatchResult.Rejection rejection : result.rejections()) {
      ReceiveCommand command = result.done() ? commands.get(rejection.position()) : named(rejection.name(), commands);
      Results.set(command, rejection);
    }
    if (!result.done()) {
      ReceiveCommand.abort(commands);
      return;
    }
    for (ReceiveCommand command : commands) {
      if (command.getResult() == Result.NOT_ATTEMPTED) {
        command.setResult(isRewind(command) ? Result.REJECTED_NONFASTFORWARD : Result.OK);
      }
    }
  }

  /** Returns the command whose ref made the batch fail, or the first one if the engine followed a symbolic ref. */
  private static ReceiveCommand named(String name, List<ReceiveCommand> commands) {
    return commands.stream().filter(command -> command.getRefName().equals(name)).findFirst().orElse(commands.get(0));
  }

  private static boolean isZero(AnyObjectId id) {
    return AnyObjectId.isEqual(ObjectId.zeroId(), id);
  }
}

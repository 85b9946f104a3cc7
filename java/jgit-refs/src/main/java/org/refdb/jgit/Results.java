package org.refdb.jgit;

import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.refdb.engine.BatchResult.Rejection;

/** Translates the engine's answers to edits into JGit's terms. */
final class Results {
  private Results() {}

  /**
   * Returns whether an edit was refused because the ref has another value than expected, for example since someone else
   * was faster.
   */
  static boolean isStale(Rejection rejection) {
    return switch (rejection.reason()) {
      case INCORRECT_OLD_VALUE, CREATE_EXISTS, NONEXISTENT_REF, EXPECTED_SYMREF -> true;
      case NAME_CONFLICT, INVALID_NEW_VALUE, CASE_CONFLICT, GENERIC, TOO_LARGE -> false;
    };
  }

  /**
   * Returns the result of the update of a single ref: a lock failure, unless the value is invalid, the name is too
   * long, or HEAD would be deleted. A name conflict is a lock failure too, as it is for JGit's own updates.
   */
  static RefUpdate.Result ofUpdate(Rejection rejection) {
    return switch (rejection.reason()) {
      case INVALID_NEW_VALUE, TOO_LARGE -> RefUpdate.Result.REJECTED_OTHER_REASON;
      default -> RefUpdate.Result.LOCK_FAILURE;
    };
  }

  /** Sets the result of a command of a batch. */
  static void set(ReceiveCommand command, Rejection rejection) {
    switch (rejection.reason()) {
      case INVALID_NEW_VALUE, TOO_LARGE ->
          command.setResult(ReceiveCommand.Result.REJECTED_OTHER_REASON, rejection.text());
      default -> command.setResult(ReceiveCommand.Result.LOCK_FAILURE, rejection.text());
    }
  }

  /** Returns the message of a reflog entry with the result appended to it. */
  static String withResult(String message, String what) {
    if (what == null) {
      return message;
    }
    return message.isEmpty() ? what : message + ": " + what;
  }

  static String inWords(RefUpdate.Result result) {
    return switch (result) {
      case NEW -> ReflogEntry.PREFIX_CREATED;
      case FORCED -> ReflogEntry.PREFIX_FORCED_UPDATE;
      case FAST_FORWARD -> ReflogEntry.PREFIX_FAST_FORWARD;
      default -> null;
    };
  }

  /**
   * Returns the result of a command for its reflog. If non-fast-forwards are allowed, each update is logged as forced,
   * even if it is a fast-forward.
   */
  static String inWords(ReceiveCommand command, boolean isForced) {
    return switch (command.getType()) {
      case CREATE -> ReflogEntry.PREFIX_CREATED;
      case UPDATE -> isForced ? ReflogEntry.PREFIX_FORCED_UPDATE : ReflogEntry.PREFIX_FAST_FORWARD;
      case UPDATE_NONFASTFORWARD -> ReflogEntry.PREFIX_FORCED_UPDATE;
      default -> null;
    };
  }
}

package org.refdb.jgit;

import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.refdb.engine.BatchResult.Rejection;

/** The engine's answers to edits, in JGit's words. */
final class Results {
  private Results() {}

  /** Whether an edit was refused because the ref is not as expected: someone else was quicker. */
  static boolean isStale(Rejection rejection) {
    return switch (rejection.reason()) {
      case INCORRECT_OLD_VALUE, CREATE_EXISTS, NONEXISTENT_REF, EXPECTED_SYMREF -> true;
      case NAME_CONFLICT, INVALID_NEW_VALUE, CASE_CONFLICT, GENERIC, TOO_LARGE -> false;
    };
  }

  /** For one ref. A name conflict is a lock that cannot be had, since JGit's locks are files beside the ref's. */
  static RefUpdate.Result ofUpdate(Rejection rejection) {
    return switch (rejection.reason()) {
      case INVALID_NEW_VALUE, TOO_LARGE -> RefUpdate.Result.REJECTED_OTHER_REASON;
      default -> RefUpdate.Result.LOCK_FAILURE;
    };
  }

  /** For a command. */
  static void set(ReceiveCommand command, Rejection rejection) {
    switch (rejection.reason()) {
      case INVALID_NEW_VALUE, TOO_LARGE ->
          command.setResult(ReceiveCommand.Result.REJECTED_OTHER_REASON, rejection.text());
      default -> command.setResult(ReceiveCommand.Result.LOCK_FAILURE, rejection.text());
    }
  }

  /** A reflog's message with what happened appended to it. */
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

  /** With non-fast-forwards allowed nobody looks whether it is one. */
  static String inWords(ReceiveCommand command, boolean isForced) {
    return switch (command.getType()) {
      case CREATE -> ReflogEntry.PREFIX_CREATED;
      case UPDATE -> isForced ? ReflogEntry.PREFIX_FORCED_UPDATE : ReflogEntry.PREFIX_FAST_FORWARD;
      case UPDATE_NONFASTFORWARD -> ReflogEntry.PREFIX_FORCED_UPDATE;
      default -> null;
    };
  }
}

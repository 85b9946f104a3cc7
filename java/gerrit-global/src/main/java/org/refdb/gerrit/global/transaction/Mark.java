package org.refdb.gerrit.global.transaction;

import org.refdb.gerrit.global.etcd.GlobalRefException;

/**
 * The last closed transaction of a slot.
 *
 * @param start the process that ran it
 * @param number its number among the transactions of the slot in that process, from 1; 0 if there was none yet
 */
public record Mark(String start, long number, Outcome outcome) {
  /** Outcome of a transaction. */
  enum Outcome {
    /** The transaction was applied. */
    DONE,
    /** A comparison failed. */
    REFUSED,
    /** The mark was closed before the transaction arrived, which can therefore never be applied. */
    VOID
  }

  static Mark parse(String text) throws GlobalRefException {
    String[] words = text.split(" ");
    try {
      return new Mark(words[0], Long.parseLong(words[1]), Outcome.valueOf(words[2]));
    } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
      throw new GlobalRefException("etcd has \"" + text + "\" for a mark, which is not in refdb's format", e);
    }
  }

  Mark next(Outcome outcome) {
    return new Mark(start, number + 1, outcome);
  }

  String text() {
    return start + ' ' + number + ' ' + outcome;
  }
}

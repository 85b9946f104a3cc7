package org.refdb.gerrit.global.transaction;

import org.refdb.gerrit.global.etcd.GlobalRefException;

/**
 * The last transaction of a slot that is closed.
 *
 * @param start the process that had it
 * @param number which of its transactions
 */
public record Mark(String start, long number, Outcome outcome) {
  /** How it ended. */
  enum Outcome {
    /** It applied. */
    DONE,
    /** A comparison failed. */
    REFUSED,
    /** Its node closed the mark before it came: it never applies. */
    VOID
  }

  static Mark parse(String text) throws GlobalRefException {
    String[] words = text.split(" ");
    try {
      return new Mark(words[0], Long.parseLong(words[1]), Outcome.valueOf(words[2]));
    } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
      throw new GlobalRefException("etcd has \"" + text + "\" for a mark, which refdb has not written", e);
    }
  }

  Mark next(Outcome outcome) {
    return new Mark(start, number + 1, outcome);
  }

  String text() {
    return start + ' ' + number + ' ' + outcome;
  }
}

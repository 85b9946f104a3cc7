package org.refdb.jgit;

import java.io.IOException;

/**
 * Thrown if a batch was not carried out because the global ref database did not agree. No edit of the batch was made.
 * If the answer of the database was lost, which the message says, the edits may still be made later.
 */
public final class NotAgreedException extends IOException {
  private static final long serialVersionUID = 1L;

  /** The reasons why the global ref database did not agree. */
  public enum Why {
    /**
     * The global ref database has another value for one of the refs, because another node was faster or this one lags
     * behind, or the project was removed or imported meanwhile, or another node gave the batch up, or an undecided
     * batch had staged one of the refs.
     */
    DIFFERS,
    /** The batch is too large for the record that makes its outcome known after a crash. */
    TOO_MANY,
    /** There is no decision, for example because the global ref database is out of reach or did not answer in time. */
    NO_ANSWER
  }

  private final Why why;

  /**
   * @param message what happened and, where there is a remedy, what to do
   * @param cause may be null
   */
  public NotAgreedException(Why why, String message, Throwable cause) {
    super(message, cause);
    this.why = why;
  }

  /** Returns the reason. */
  public Why why() {
    return why;
  }

  /** Returns whether smaller batches may be agreed to. */
  boolean mayHelpToDivide() {
    return why != Why.NO_ANSWER;
  }
}

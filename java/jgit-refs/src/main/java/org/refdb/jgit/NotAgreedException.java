package org.refdb.jgit;

import java.io.IOException;

/**
 * Thrown if a batch was not carried out because the global ref database did not agree. The batch's refs are unchanged.
 * If the answer of the database was lost, which the message says, they may still be changed later.
 */
public final class NotAgreedException extends IOException {
  private static final long serialVersionUID = 1L;

  /** The reasons why the global ref database did not agree. */
  public enum Why {
    /**
     * The global ref database has another value for one of the refs, because another node was faster or this one lags
     * behind, or the project was removed, renamed or imported meanwhile.
     */
    DIFFERS,
    /** The batch is too large for the record that makes its outcome known after a crash. */
    TOO_MANY,
    /** The global ref database could not be reached, did not answer in time, or refuses every request. */
    NO_ANSWER
  }

  private final Why why;

  /**
   * @param message names the database and the remedy
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

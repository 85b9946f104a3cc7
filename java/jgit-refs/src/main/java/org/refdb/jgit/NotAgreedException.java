package org.refdb.jgit;

import java.io.IOException;

/** A batch did not happen, since the global ref database did not agree. Its refs are as they were. */
public final class NotAgreedException extends IOException {
  private static final long serialVersionUID = 1L;

  /** Why it did not. */
  public enum Why {
    /**
     * The global ref database has another value for one of the refs, because another node was faster or this one lags
     * behind.
     */
    DIFFERS,
    /** There are more refs than it takes at once. */
    TOO_MANY,
    /** The global ref database could not be reached, or refuses every request. */
    NO_ANSWER
  }

  private final Why why;

  /**
   * @param message names the database and what to do
   * @param cause may be null
   */
  public NotAgreedException(Why why, String message, Throwable cause) {
    super(message, cause);
    this.why = why;
  }

  /** Why. */
  public Why why() {
    return why;
  }

  /** Whether fewer refs at once may be agreed to. */
  boolean mayHelpToDivide() {
    return why != Why.NO_ANSWER;
  }
}

package org.refdb.jgit;

import java.io.IOException;

/** A batch did not happen, since the global ref database did not agree. Its refs are as they were. */
public final class NotAgreedException extends IOException {
  private static final long serialVersionUID = 1L;

  /** Why it did not. */
  public enum Why {
    /** It has another value of one of the refs: another node was quicker, or this one is behind. */
    DIFFERS,
    /** There are more refs than it takes at once. */
    TOO_MANY,
    /** It was not reached, or refuses everything. */
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

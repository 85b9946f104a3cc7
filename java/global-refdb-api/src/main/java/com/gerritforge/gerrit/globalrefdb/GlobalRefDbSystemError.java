package com.gerritforge.gerrit.globalrefdb;

/** Thrown if the global ref database cannot carry out a request. */
public class GlobalRefDbSystemError extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Creates the exception with a message and a cause. */
  public GlobalRefDbSystemError(String msg, Exception cause) {
    super(msg, cause);
  }
}

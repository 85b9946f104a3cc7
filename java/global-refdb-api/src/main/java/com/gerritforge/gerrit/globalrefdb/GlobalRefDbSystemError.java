package com.gerritforge.gerrit.globalrefdb;

/** The database could not do what was asked. */
public class GlobalRefDbSystemError extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Says what, and why. */
  public GlobalRefDbSystemError(String msg, Exception cause) {
    super(msg, cause);
  }
}

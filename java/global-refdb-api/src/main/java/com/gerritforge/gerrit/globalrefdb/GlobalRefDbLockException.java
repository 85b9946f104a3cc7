package com.gerritforge.gerrit.globalrefdb;

/** A ref could not be locked in the global database. */
public class GlobalRefDbLockException extends RefDbLockException {
  private static final long serialVersionUID = 1L;

  /** Says which, and why. */
  public GlobalRefDbLockException(String project, String refName, Exception cause) {
    super(project, refName, cause);
  }
}

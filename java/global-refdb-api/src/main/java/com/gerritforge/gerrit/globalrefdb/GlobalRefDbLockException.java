package com.gerritforge.gerrit.globalrefdb;

/** Thrown if a ref cannot be locked in the global ref database, or cannot be compared with its value there. */
public class GlobalRefDbLockException extends RefDbLockException {
  private static final long serialVersionUID = 1L;

  /** Creates the exception with the ref and the cause. */
  public GlobalRefDbLockException(String project, String refName, Exception cause) {
    super(project, refName, cause);
  }
}

package com.gerritforge.gerrit.globalrefdb;

import com.google.gerrit.git.LockFailureException;

/** Thrown if a ref cannot be locked. */
public class RefDbLockException extends LockFailureException {
  private static final long serialVersionUID = 1L;

  /** Creates the exception with the ref and the cause. */
  public RefDbLockException(String project, String refName, Exception cause) {
    super("Unable to lock ref " + refName + " on project " + project, cause);
  }
}

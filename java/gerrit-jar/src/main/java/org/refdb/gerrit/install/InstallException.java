package org.refdb.gerrit.install;

/**
 * Thrown if refdb cannot be installed or used, where possible before anything is changed; the message says why, and
 * what to do about it.
 */
final class InstallException extends Exception {
  private static final long serialVersionUID = 1L;

  InstallException(String message) {
    super(message);
  }

  InstallException(String message, Throwable cause) {
    super(message, cause);
  }
}

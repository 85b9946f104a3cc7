package org.refdb.gerrit.global;

/** What etcd refused or did not answer, in words for an administrator. */
class GlobalRefException extends Exception {
  private static final long serialVersionUID = 1L;

  GlobalRefException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Nobody knows whether a request was carried out. */
  static final class NoAnswer extends GlobalRefException {
    private static final long serialVersionUID = 1L;

    NoAnswer(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** etcd has answered with an error. */
  static final class Refused extends GlobalRefException {
    private static final long serialVersionUID = 1L;

    private final boolean leaseIsGone;

    Refused(String message, Throwable cause, boolean leaseIsGone) {
      super(message, cause);
      this.leaseIsGone = leaseIsGone;
    }

    boolean leaseIsGone() {
      return leaseIsGone;
    }
  }
}

package org.refdb.gerrit.global.etcd;

/** What etcd refused or did not answer, in words for an administrator. */
public class GlobalRefException extends Exception {
  private static final long serialVersionUID = 1L;

  public GlobalRefException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Nobody knows whether a request was carried out. */
  public static final class NoAnswer extends GlobalRefException {
    private static final long serialVersionUID = 1L;

    public NoAnswer(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** etcd has answered with an error. */
  public static final class Refused extends GlobalRefException {
    private static final long serialVersionUID = 1L;

    private final boolean leaseIsGone;

    public Refused(String message, Throwable cause, boolean leaseIsGone) {
      super(message, cause);
      this.leaseIsGone = leaseIsGone;
    }

    public boolean leaseIsGone() {
      return leaseIsGone;
    }
  }
}

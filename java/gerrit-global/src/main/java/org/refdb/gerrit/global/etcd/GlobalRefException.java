package org.refdb.gerrit.global.etcd;

/** An operation on the global ref database failed; the message is written for administrators. */
public class GlobalRefException extends Exception {
  private static final long serialVersionUID = 1L;

  public GlobalRefException(String message, Throwable cause) {
    super(message, cause);
  }

  /** No response arrived, or an error that does not tell whether the request was carried out. */
  public static final class NoAnswer extends GlobalRefException {
    private static final long serialVersionUID = 1L;

    public NoAnswer(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** etcd responded with an error after which the request is no longer in flight. */
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

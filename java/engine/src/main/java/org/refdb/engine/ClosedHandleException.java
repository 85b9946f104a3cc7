package org.refdb.engine;

/** Thrown when something is used after it was closed. */
public final class ClosedHandleException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception; the library does so too.
   *
   * @param what the thing that is closed
   */
  public ClosedHandleException(String what) {
    super(what + " is closed");
  }
}

package org.refdb.engine;

/** Something was used after it had been closed. */
public final class ClosedHandleException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  /**
   * Made by the library too.
   *
   * @param what the thing that is closed
   */
  public ClosedHandleException(String what) {
    super(what + " is closed");
  }
}

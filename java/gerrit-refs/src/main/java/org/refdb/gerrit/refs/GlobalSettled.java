package org.refdb.gerrit.refs;

/**
 * Result of settling the undecided updates of native mode in a project.
 *
 * @param settled number of updates that were finished or dropped, or would be
 * @param underWay number of updates that a process is still running
 * @param failed number of updates that could not be settled
 */
public record GlobalSettled(long settled, long underWay, long failed) {
  /** All zero, for a server without native mode. */
  public static final GlobalSettled NONE = new GlobalSettled(0, 0, 0);
}

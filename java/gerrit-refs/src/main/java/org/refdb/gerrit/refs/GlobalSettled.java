package org.refdb.gerrit.refs;

/**
 * What became of the updates that native mode left undecided in a project.
 *
 * @param settled those that are finished or dropped, or would be
 * @param underWay those that a process is at
 * @param failed those that could not be settled
 */
public record GlobalSettled(long settled, long underWay, long failed) {
  /** Where native mode is not on. */
  public static final GlobalSettled NONE = new GlobalSettled(0, 0, 0);
}

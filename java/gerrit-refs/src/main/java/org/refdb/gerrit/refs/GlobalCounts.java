package org.refdb.gerrit.refs;

/**
 * Counters of native mode's requests to the global ref database since the start.
 *
 * @param updates batches that were accepted
 * @param refused batches that were refused, in most cases because the database has other values
 * @param failed batches that failed, for example because the database was unreachable or full, and those reported as
 *     unknown
 * @param unknown batches that were reported as unknown
 * @param unresolved batches whose outcome is still unknown, or that could not be finished on this disk so far
 */
public record GlobalCounts(long updates, long refused, long failed, long unknown, long unresolved) {
  /** All zero, for a server without native mode. */
  public static final GlobalCounts NONE = new GlobalCounts(0, 0, 0, 0, 0);
}

package org.refdb.gerrit.refs;

/**
 * What native mode has asked of the global ref database since the start.
 *
 * @param updates batches that it has accepted
 * @param refused batches that it has otherwise
 * @param failed batches that changed nothing since it was away or full
 * @param unknown batches that were reported as unknown
 * @param unresolved those of them of which it is not known yet what became of them
 */
public record GlobalCounts(long updates, long refused, long failed, long unknown, long unresolved) {
  /** Where native mode is not on. */
  public static final GlobalCounts NONE = new GlobalCounts(0, 0, 0, 0, 0);
}

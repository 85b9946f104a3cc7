package org.refdb.engine;

/**
 * Statistics of a view of a repository since it was opened in this process.
 *
 * @param view the number of the view, which grows from view to view; it stays the same when the view is reopened
 * @param hits look-ups that were answered from memory, after a check as strict as the trust settings
 * @param misses look-ups that read from disk; with reftables, some of these count as hits, and look-ups of pseudo-refs
 *     count as neither
 * @param loads how often packed-refs or the list of tables was found changed, or the index from objects to refs built
 * @param loadNanos nanoseconds spent on building the index from objects to refs; the other loads are not timed
 * @param reopens how often the repository was reopened because it was replaced, reconfigured, converted or flushed
 * @param bytes bytes of memory held, besides the share of the caches that all views use
 * @param commits batches that ended without an error, even if all of their edits were rejected
 * @param groups groups in which the batches were written
 * @param largestGroup the largest number of batches in a group
 * @param rejections batches that were rejected, or refused by a hook or the global ref database, and rejected edits of
 *     other batches
 * @param stale refs for which a verification found that the view differs from the disk
 * @param verifications verifications that ended without an error
 * @param broken refs that were found to be broken (see {@link BrokenRef}) and not seen intact or missing since, a
 *     thousand at most
 * @param unsorted 1 if packed-refs was found to be unsorted although its header says that it is sorted, else 0
 * @param gitPacks which settings let git pack refs by itself, so that small batches go to packed-refs although {@code
 *     refdb.smallBatches} is {@code auto}: 0 for none, 1 for {@code gc.packRefs}, 2 for {@code
 *     maintenance.pack-refs.enabled}, 3 for both
 * @param ignoredTrust 1 if a trust setting says {@code always} although the repository is on a network file system,
 *     else 0
 */
public record RefStats(
    long view,
    long hits,
    long misses,
    long loads,
    long loadNanos,
    long reopens,
    long bytes,
    long commits,
    long groups,
    long largestGroup,
    long rejections,
    long stale,
    long verifications,
    long broken,
    long unsorted,
    long gitPacks,
    long ignoredTrust) {

  /** Returns the names of the settings in {@link #gitPacks}, which must not be 0. */
  public String settingsOfGit() {
    if (gitPacks == 1) {
      return "gc.packRefs";
    }
    return gitPacks == 2 ? "maintenance.pack-refs.enabled" : "gc.packRefs and maintenance.pack-refs.enabled";
  }

  /** Returns these statistics for a view that no longer exists, without memory held, broken refs and warnings. */
  public RefStats dropped() {
    return new RefStats(
        view, hits, misses, loads, loadNanos, reopens, 0, commits, groups, largestGroup, rejections, stale,
        verifications, 0, 0, 0, 0);
  }

  /** Returns the combined statistics of two successive views of a repository. */
  public RefStats plus(RefStats other) {
    return new RefStats(
        Math.max(view, other.view),
        hits + other.hits,
        misses + other.misses,
        loads + other.loads,
        loadNanos + other.loadNanos,
        reopens + other.reopens,
        bytes + other.bytes,
        commits + other.commits,
        groups + other.groups,
        Math.max(largestGroup, other.largestGroup),
        rejections + other.rejections,
        stale + other.stale,
        verifications + other.verifications,
        broken + other.broken,
        Math.max(unsorted, other.unsorted),
        Math.max(gitPacks, other.gitPacks),
        Math.max(ignoredTrust, other.ignoredTrust));
  }

  static RefStats unpack(Unpacker in) {
    return new RefStats(
        in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(),
        in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64());
  }
}

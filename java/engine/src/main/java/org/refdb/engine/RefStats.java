package org.refdb.engine;

/**
 * What a repository's view has done since it was opened in this process.
 *
 * @param view whose figures these are. It grows from view to view. A repository that is opened anew gets a new one
 * @param hits look-ups that were answered from memory, once their proof was checked
 * @param misses look-ups that had to read
 * @param loads how often refs were found changed by someone else, or for the first time
 * @param loadNanos time spent on that
 * @param reopens how often the repository was opened again, because it was replaced or converted
 * @param bytes memory held, besides the share of the block cache
 * @param commits batches that were committed
 * @param groups groups they were committed in
 * @param largestGroup the largest of them
 * @param rejections batches, or edits of one, that were refused
 * @param stale refs that a verification found to differ from the disk
 * @param verifications how many verifications were made
 * @param broken refs whose files are no good, as far as they were met
 * @param unsorted 1 where packed-refs says that it is sorted and was found not to be
 * @param gitPacks 0, or which settings let git pack refs by itself, so that small batches go to packed-refs though
 *     {@code refdb.smallBatches} is {@code auto}: 1 for {@code gc.packRefs},
 *     2 for {@code maintenance.pack-refs.enabled}, 3 for both
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
    long gitPacks) {

  /** The settings that {@link #gitPacks} is about. */
  public String settingsOfGit() {
    if (gitPacks == 1) {
      return "gc.packRefs";
    }
    return gitPacks == 2 ? "maintenance.pack-refs.enabled" : "gc.packRefs and maintenance.pack-refs.enabled";
  }

  /** These figures once the view is gone: what it held, and knew to be broken, is so no more. */
  public RefStats dropped() {
    return new RefStats(
        view, hits, misses, loads, loadNanos, reopens, 0, commits, groups, largestGroup, rejections, stale,
        verifications, 0, 0, 0);
  }

  /** The figures of two views of a repository, one after the other. */
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
        Math.max(gitPacks, other.gitPacks));
  }

  static RefStats unpack(Unpacker in) {
    return new RefStats(
        in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(),
        in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64());
  }
}

package org.refdb.engine;

/**
 * The resources that all views of a process hold together.
 *
 * @param views the number of repositories that have a view
 * @param openViews the number of views that have files open and refs in memory, including those that {@link
 *     EngineViews#forget} has left in use
 * @param closed how often the files of a view were closed to stay within the limits
 * @param openFiles the number of open files
 * @param openFilesMax the limit on open files
 * @param bytes the memory in use off the Java heap, in bytes
 * @param bytesMax the limit on that memory, in bytes, which can be exceeded if the views need more than half of it even
 *     while they are closed
 * @param folds how often loose refs were moved to packed-refs in the background
 * @param failedFolds how often that failed; attempts during which another process packs count from the third failure in
 *     a row on
 */
public record RefHoldings(
    long views,
    long openViews,
    long closed,
    long openFiles,
    long openFilesMax,
    long bytes,
    long bytesMax,
    long folds,
    long failedFolds) {

  static RefHoldings unpack(Unpacker in) {
    return new RefHoldings(
        in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64());
  }
}

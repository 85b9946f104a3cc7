package org.refdb.engine;

/**
 * What all views of a process hold together.
 *
 * @param views repositories that have a view
 * @param openViews those of them that have files open and refs in memory
 * @param closed times that a view's files were closed because others needed their room
 * @param openFiles files that are open
 * @param openFilesMax how many may be
 * @param bytes memory off the Java heap
 * @param bytesMax how much that may be
 * @param folds times that loose refs were folded into packed-refs in the background
 * @param failedFolds times that this failed; it is tried again
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

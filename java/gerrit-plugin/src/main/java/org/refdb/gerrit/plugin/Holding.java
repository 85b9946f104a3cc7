package org.refdb.gerrit.plugin;

import com.google.gerrit.metrics.Description;
import java.util.List;
import java.util.Optional;
import java.util.function.ToLongFunction;
import org.refdb.engine.RefHoldings;

/**
 * A figure of the memory and files held for all projects together.
 *
 * @param name the name of the figure's metric
 * @param description the description of the metric
 * @param grows whether it only grows while the server runs, as a counter does
 * @param value the figure
 */
record Holding(String name, String description, boolean grows, ToLongFunction<RefHoldings> value) {

  /** All figures. */
  static final List<Holding> ALL =
      List.of(
          new Holding("views", "Projects that JGit has open", false, RefHoldings::views),
          new Holding(
              "open_views", "Projects that JGit has open and whose files are open", false, RefHoldings::openViews),
          new Holding(
              "views_closed",
              "Times that a project's files were closed because others needed their room",
              true,
              RefHoldings::closed),
          new Holding("open_files", "Files that are open", false, RefHoldings::openFiles),
          new Holding(
              "open_files_max",
              "Files that may be open, besides those of questions under way",
              false,
              RefHoldings::openFilesMax),
          new Holding(
              "memory_bytes",
              "All memory held for refs off the Java heap, in bytes",
              false,
              RefHoldings::bytes),
          new Holding(
              "memory_bytes_max",
              "Maximum memory for refs off the Java heap, in bytes",
              false,
              RefHoldings::bytesMax),
          new Holding(
              "folds",
              "Times that loose refs were folded into packed-refs in the background",
              true,
              RefHoldings::folds),
          new Holding(
              "failed_folds",
              "Times that folding loose refs into packed-refs failed; it is tried again",
              true,
              RefHoldings::failedFolds));

  /** Description of the metric for Gerrit. */
  Description describe() {
    Description told = new Description(description);
    return grows ? told.setCumulative() : told.setGauge();
  }

  /** The figure; 0 if the engine could not be loaded. */
  long of(Optional<RefHoldings> holdings) {
    return holdings.map(value::applyAsLong).orElse(0L);
  }
}

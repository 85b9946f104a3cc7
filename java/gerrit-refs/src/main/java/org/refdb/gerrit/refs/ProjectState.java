package org.refdb.gerrit.refs;

import com.google.gerrit.entities.Project;
import java.util.concurrent.atomic.LongAdder;
import org.refdb.engine.RefStats;

/** The state of one project, kept for the life of the process while repository objects come and go. */
final class ProjectState {
  final Project.NameKey name;

  /** Whether shadow mode is on: JGit answers, and refdb is compared with it. */
  volatile boolean shadow;

  /** The reason why refdb could not open this project, or null. */
  private volatile Refusal refusal;

  /** Repository objects without refdb that were found in JGit's cache and evicted. */
  final LongAdder plainEvicted = new LongAdder();

  /** Queries that both JGit and refdb were asked in shadow mode. */
  final LongAdder compared = new LongAdder();

  /** Queries that refdb answered differently from JGit, or with an error other than a broken ref. */
  final LongAdder different = new LongAdder();

  /** How many times {@link RefdbAdmin#refresh} told the engine to check the disk. */
  final LongAdder refreshed = new LongAdder();

  /** How many times the repository's ref database was requested, as it is before every query through Gerrit or JGit. */
  final LongAdder requested = new LongAdder();

  /** What the verifier knows about the project. */
  final Staleness staleness = new Staleness(System.nanoTime());

  /** The sum of the figures of views that were dropped, or null. */
  private RefStats dropped;

  /** Figures of the current view when they were last read, or null. */
  private RefStats present;

  ProjectState(Project.NameKey name, boolean shadow) {
    this.name = name;
    this.shadow = shadow;
  }

  /** Returns why refdb could not open this project, or null. */
  Refusal refusal() {
    return refusal;
  }

  /**
   * Records that refdb could not open this project, and returns the current refusal, which is null if it was cleared
   * meanwhile. Threads that fail at the same time count as one failure.
   *
   * @param before the refusal that the caller saw before it tried
   */
  synchronized Refusal refuse(Refusal before, Exception why) {
    if (refusal == before) {
      refusal = Refusal.after(before, String.valueOf(why.getMessage()), System.nanoTime());
    }
    return refusal;
  }

  /** Clears the refusal, because refdb serves the project or shall try again at once. */
  void admit() {
    refusal = null;
  }

  /** Records the figures of a view, which start at zero for each view. */
  synchronized void keep(RefStats stats) {
    if (present != null && stats.view() < present.view()) {
      return; // an older view, whose figures were added to the sum when a newer one was seen
    }
    if (present != null && stats.view() > present.view()) {
      dropped();
    }
    present = stats;
  }

  /** Adds the last figures of a view that has been replaced to the sum of dropped views. */
  private void dropped() {
    dropped = dropped == null ? present.dropped() : dropped.plus(present.dropped());
  }

  /** Returns the engine's figures since the start, or null if the project's refs were not used yet. */
  synchronized RefStats stats() {
    return present == null ? dropped : dropped == null ? present : dropped.plus(present);
  }

  /**
   * Returns a number that grows whenever refs of the project are used: how often they were looked up by name, batches
   * committed, and the ref database requested. The engine does not count lists, which the requests stand for.
   */
  long uses() {
    RefStats stats = stats();
    return requested.sum() + (stats == null ? 0 : stats.hits() + stats.misses() + stats.commits());
  }
}

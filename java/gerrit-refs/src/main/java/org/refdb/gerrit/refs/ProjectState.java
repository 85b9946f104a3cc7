package org.refdb.gerrit.refs;

import com.google.gerrit.entities.Project;
import java.util.concurrent.atomic.LongAdder;
import org.refdb.engine.RefStats;

/** The knowledge about one project as long as the process lives, whichever repository objects come and go. */
final class ProjectState {
  final Project.NameKey name;

  /** Answers come from JGit, and refdb's are compared with them. */
  volatile boolean shadow;

  /** That refdb could not open this project, or null. */
  private volatile Refusal refusal;

  /** Repository objects without refdb that were found in JGit's cache and thrown out of it. */
  final LongAdder plainEvicted = new LongAdder();

  /** Questions that were asked of both in shadow mode. */
  final LongAdder compared = new LongAdder();

  /** Those of them that refdb answered in another way than JGit. */
  final LongAdder different = new LongAdder();

  /** Times that another node's news, or an administrator, caused a check. */
  final LongAdder refreshed = new LongAdder();

  /** What the verifier knows. */
  final Staleness staleness = new Staleness(System.nanoTime());

  /** The engine's figures of views that were dropped since, or null. */
  private RefStats dropped;

  /** Those of the present one when they were last asked for, or null. */
  private RefStats present;

  ProjectState(Project.NameKey name, boolean shadow) {
    this.name = name;
    this.shadow = shadow;
  }

  /** That refdb could not open this project, or null. */
  Refusal refusal() {
    return refusal;
  }

  /**
   * refdb could not open this project. Threads that tried at once have failed once.
   *
   * @param before what the caller found before it tried
   */
  synchronized Refusal refuse(Refusal before, Exception why) {
    if (refusal == before) {
      refusal = Refusal.after(before, String.valueOf(why.getMessage()), System.nanoTime());
    }
    return refusal;
  }

  /** refdb serves this project, or shall be asked at once. */
  void admit() {
    refusal = null;
  }

  /** The engine's figures of a view, each of which counts from nothing. */
  synchronized void keep(RefStats stats) {
    if (present != null && stats.view() < present.view()) {
      return; // counted already, as it was when it was last asked
    }
    if (present != null && stats.view() > present.view()) {
      dropped();
    }
    present = stats;
  }

  /** The present view is gone. */
  private void dropped() {
    dropped = dropped == null ? present.dropped() : dropped.plus(present.dropped());
  }

  /** The engine's figures since the start, or null if it was not asked yet. */
  synchronized RefStats stats() {
    return present == null ? dropped : dropped == null ? present : dropped.plus(present);
  }

  /** How often its refs were asked for or written. */
  long uses() {
    RefStats stats = stats();
    return stats == null ? 0 : stats.hits() + stats.misses() + stats.commits();
  }
}

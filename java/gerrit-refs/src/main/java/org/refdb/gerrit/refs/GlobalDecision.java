package org.refdb.gerrit.refs;

import java.io.IOException;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.EngineView;
import org.refdb.jgit.BatchCommitter;

/**
 * Native mode: a global ref database decides about each update of refs, between prepare and commit. {@code
 * refdb-global.jar} contains the implementation on etcd.
 */
public interface GlobalDecision {
  /** Returns whether refs of a project, all or some, are to be stored in the database, by the settings. */
  boolean has(String project);

  /** Returns the committer of a project's batches, which commits a batch of stored refs only if the database agrees. */
  BatchCommitter committer(String project, Repository repository);

  /**
   * Begins to settle, in the background, what this node has left undecided in a repository that is being opened. Does
   * not wait for the database.
   */
  void opened(String project, EngineView refs) throws IOException;

  /**
   * Settles the undecided updates of any node in a project, except those that a process is still running.
   *
   * @param isDry whether to report only what would be done
   * @param said receives a line for each update
   */
  default GlobalSettled settle(String project, EngineView refs, boolean isDry, Consumer<String> said) throws IOException {
    return GlobalSettled.NONE;
  }

  /** Called when a project is deleted, because a later one of the same name begins anew. */
  void removed(String project);

  /** Returns the counters for metrics. */
  default GlobalCounts counts() {
    return GlobalCounts.NONE;
  }

  /** Sets the receiver of the time that each batch takes in the database, in nanoseconds; null removes it. */
  default void tellTimes(LongConsumer nanos) {}
}

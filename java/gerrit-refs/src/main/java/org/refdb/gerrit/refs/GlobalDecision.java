package org.refdb.gerrit.refs;

import java.io.IOException;
import java.util.function.LongConsumer;
import org.refdb.engine.RefView;
import org.refdb.jgit.BatchCommitter;

/**
 * Native mode: a global ref database decides about each update of refs, between prepare and commit. {@code
 * refdb-global.jar} has the one on etcd.
 */
public interface GlobalDecision {
  /** Whether any ref of a project is stored there. */
  boolean has(String project);

  /** Makes the batches of a project that is stored there, each by the database's word. */
  BatchCommitter committer(String project);

  /** Settles what an earlier process of this node left undecided in a repository that is opened. */
  void opened(String project, RefView refs) throws IOException;

  /** A project was deleted: one of the same name begins anew. */
  void removed(String project);

  /** What was asked, for metrics. */
  default GlobalCounts counts() {
    return GlobalCounts.NONE;
  }

  /** From now on tells how many nanoseconds each question took; null ends that. */
  default void tellTimes(LongConsumer nanos) {}
}

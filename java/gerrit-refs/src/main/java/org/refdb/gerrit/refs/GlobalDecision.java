package org.refdb.gerrit.refs;

import java.io.IOException;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import org.eclipse.jgit.lib.Repository;
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
  BatchCommitter committer(String project, Repository repository);

  /** Settles what an earlier process of this node left undecided in a repository that is opened. */
  void opened(String project, RefView refs) throws IOException;

  /**
   * Settles what updates of any node left undecided in a project, as far as no process is at them.
   *
   * @param isDry whether to say only what would be done
   * @param said is told a line for each
   */
  default GlobalSettled settle(String project, RefView refs, boolean isDry, Consumer<String> said) throws IOException {
    return GlobalSettled.NONE;
  }

  /** A project was deleted: one of the same name begins anew. */
  void removed(String project);

  /** What was asked, for metrics. */
  default GlobalCounts counts() {
    return GlobalCounts.NONE;
  }

  /** From now on tells how many nanoseconds each question took; null ends that. */
  default void tellTimes(LongConsumer nanos) {}
}

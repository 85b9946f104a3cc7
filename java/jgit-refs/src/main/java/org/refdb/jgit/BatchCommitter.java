package org.refdb.jgit;

import java.io.IOException;
import org.refdb.engine.BatchResult;
import org.refdb.engine.RefBatch;
import org.refdb.engine.EngineView;

/** Commits the batches of one repository, in native mode only if the global ref database agrees. */
@FunctionalInterface
public interface BatchCommitter {
  /**
   * Commits a batch.
   *
   * @throws NotAgreedException if the global ref database has to agree and did not; no edit of the batch was made so
   *     far
   */
  BatchResult commit(EngineView view, RefBatch batch) throws IOException;
}

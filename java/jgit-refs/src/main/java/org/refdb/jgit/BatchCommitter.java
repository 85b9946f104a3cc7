package org.refdb.jgit;

import java.io.IOException;
import org.refdb.engine.BatchResult;
import org.refdb.engine.RefBatch;
import org.refdb.engine.EngineView;

/** Commits the batches of one repository, alone or once others have agreed. */
@FunctionalInterface
public interface BatchCommitter {
  /**
   * Commits a batch.
   *
   * @throws NotAgreedException if others that have to agree did not; nothing was changed
   */
  BatchResult commit(EngineView view, RefBatch batch) throws IOException;
}

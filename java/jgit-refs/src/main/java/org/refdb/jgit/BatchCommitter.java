package org.refdb.jgit;

import java.io.IOException;
import org.refdb.engine.BatchResult;
import org.refdb.engine.RefBatch;
import org.refdb.engine.EngineView;

/** Makes the batches of one repository: by itself, or by the word of others. */
@FunctionalInterface
public interface BatchCommitter {
  /**
   * Makes a batch.
   *
   * @throws NotAgreedException if others whose word counts did not agree: nothing was changed
   */
  BatchResult commit(EngineView view, RefBatch batch) throws IOException;
}

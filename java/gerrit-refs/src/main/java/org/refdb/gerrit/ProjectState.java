package org.refdb.gerrit;

import com.google.gerrit.entities.Project;
import java.util.concurrent.atomic.LongAdder;
import org.refdb.engine.RefStats;

/** What is known about one project as long as the process lives, whichever repository objects come and go. */
final class ProjectState {
  final Project.NameKey name;

  /** Answers come from JGit, and refdb's are compared with them. */
  volatile boolean shadow;

  /** Why refdb does not serve this project, or null. JGit's ref database does then. */
  volatile String refusal;

  /** Repository objects without refdb that were found in JGit's cache and thrown out of it. */
  final LongAdder plainEvicted = new LongAdder();

  /** Questions that were asked of both in shadow mode. */
  final LongAdder compared = new LongAdder();

  /** Those of them that refdb answered in another way than JGit. */
  final LongAdder different = new LongAdder();

  /** Times that another node's news, or an administrator, caused a check. */
  final LongAdder refreshed = new LongAdder();

  /** The engine's figures when they were last asked for. */
  volatile RefStats lastStats;

  ProjectState(Project.NameKey name) {
    this.name = name;
  }
}

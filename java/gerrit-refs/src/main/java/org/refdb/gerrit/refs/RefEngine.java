package org.refdb.gerrit.refs;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.refdb.engine.RefHoldings;
import org.refdb.engine.RefStats;

/** Opens ref databases for repositories, and says what it knows of them. */
interface RefEngine {
  /**
   * Opens a repository's refs.
   *
   * @param repository whose refs; updates and events are in its name
   * @return the ref database, open; the repository closes it
   * @throws IOException if the engine cannot serve this repository: JGit's ref database does then
   */
  RefDatabase open(FileRepository repository) throws IOException;

  /** Who decides about updates besides this node, if someone does. Then JGit's ref database may never serve. */
  default Optional<GlobalDecision> global() {
    return Optional.empty();
  }

  /** Lets go of the memory of a repository. */
  void forget(Path gitDir);

  /** What the databases of one repository have done since it was opened; nothing if it is not open. */
  Optional<RefStats> stats(Path gitDir);

  /** The same of all repositories that are open. None of them is touched for it. */
  Map<Path, RefStats> stats() throws IOException;

  /** The memory for all repositories together. */
  RefHoldings holdings();

  /** The next question about a repository looks at the disk; false if it is not open. */
  boolean hint(Path gitDir);

  /** The refs that hold each of some objects, or a tag that leads to it, in their order. No object comes twice. */
  List<Set<Ref>> tips(RefDatabase refs, List<? extends ObjectId> ids) throws IOException;

  /** Compares memory with the disk. */
  Findings verify(RefDatabase refs) throws IOException;

  /** Drops the memory of a repository whose database is in use, and opens it again. */
  void flush(RefDatabase refs) throws IOException;
}

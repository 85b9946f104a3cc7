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
import org.refdb.engine.VerifyReport;

/** Opens the ref databases of repositories, and reports on them. */
interface RefEngine {
  /**
   * Opens a repository's refs.
   *
   * @param repository the repository; updates and events refer to it
   * @return the ref database, open; the repository closes it
   * @throws IOException if the engine cannot serve this repository
   */
  RefDatabase open(FileRepository repository) throws IOException;

  /** The global ref database that decides about updates, if there is one. JGit's ref database must never serve then. */
  default Optional<GlobalDecision> global() {
    return Optional.empty();
  }

  /** Makes the next user of a repository read it again. Present users go on with what is in memory. */
  void forget(Path gitDir);

  /** Figures of one repository since it was opened; nothing if it is not open. */
  Optional<RefStats> stats(Path gitDir);

  /** Figures of all open repositories, read without accessing any of them. */
  Map<Path, RefStats> stats() throws IOException;

  /** Memory and files held for all repositories together. */
  RefHoldings holdings();

  /** Makes the next query of a repository check the disk; returns false if the repository is not open. */
  boolean hint(Path gitDir);

  /**
   * Finds, for each of some distinct object ids, the refs that point to the object or to a tag of it, in the order of
   * the ids.
   */
  List<Set<Ref>> tips(RefDatabase refs, List<? extends ObjectId> ids) throws IOException;

  /** Compares the memory of a repository with the disk. */
  VerifyReport verify(RefDatabase refs) throws IOException;

  /** Drops the memory of a repository whose database is in use, so that it is read again. */
  void flush(RefDatabase refs) throws IOException;
}

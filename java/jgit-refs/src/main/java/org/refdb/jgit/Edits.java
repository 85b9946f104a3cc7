package org.refdb.jgit;

import java.io.IOException;
import java.time.Instant;
import java.util.HashSet;
import java.util.Set;
import org.eclipse.jgit.lib.AnyObjectId;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevCommit;
import org.eclipse.jgit.revwalk.RevObject;
import org.eclipse.jgit.revwalk.RevTag;
import org.eclipse.jgit.revwalk.RevWalk;
import org.refdb.engine.RefBatch;

/** Builds a batch for the engine from edits in JGit's terms. */
final class Edits {
  private final RefBatch batch;
  private final Set<ObjectId> known = new HashSet<>();

  /**
   * @param atomic whether one impossible edit makes the whole batch fail
   * @param who the committer in the reflogs, with the time of their entries
   */
  Edits(boolean atomic, PersonIdent who) {
    // JGit's callers may delete a ref and create one below it at once.
    batch = new RefBatch(atomic, true);
    Instant when = who.getWhenAsInstant();
    int offsetSeconds = who.getZoneId().getRules().getOffset(when).getTotalSeconds();
    batch.committer(who.getName(), who.getEmailAddress(), when.getEpochSecond(), offsetSeconds / 60);
  }

  /** Creates edits for refs that may be broken. As in JGit, a broken ref counts as one that does not exist. */
  static Edits mending(boolean atomic, PersonIdent who) {
    Edits edits = new Edits(atomic, who);
    edits.batch.mending();
    return edits;
  }

  /**
   * Returns the committer of reflog entries, with their time. JGit keeps the time of a given ident in reftables and,
   * with files, in atomic batches of several commands. Everywhere else it takes the present time, in the zone of the
   * system, from its {@code SystemReader}.
   *
   * @param given the ident that the caller gave; null for the repository's user
   * @param isWholeBatch whether the entries belong to an atomic batch of several commands
   */
  static PersonIdent committer(RefdbDatabase database, PersonIdent given, boolean isWholeBatch) throws IOException {
    if (given == null) {
      return new PersonIdent(database.repository());
    }
    return isWholeBatch || database.view().isReftable() ? given : new PersonIdent(given);
  }

  RefBatch batch() {
    return batch;
  }

  RefBatch.Edit edit(String name) {
    return batch.edit(name);
  }

  /**
   * Tells the engine of what kind an object is, and to what a tag leads. {@code walk} reads the object unless it has
   * parsed it before.
   *
   * @throws org.eclipse.jgit.errors.MissingObjectException if the object does not exist
   */
  void describe(RevWalk walk, ObjectId id) throws IOException {
    if (!known.add(id)) {
      return;
    }
    RevObject object = walk.parseAny(id);
    if (object instanceof RevTag) {
      batch.tag(raw(id), raw(walk.peel(object)));
    } else {
      batch.object(raw(id), object instanceof RevCommit ? RefBatch.ObjectClass.COMMIT : RefBatch.ObjectClass.OTHER);
    }
  }

  /** Describes an object that JGit has not parsed yet. */
  void describe(Repository repository, ObjectId id) throws IOException {
    try (RevWalk walk = new RevWalk(repository)) {
      describe(walk, id);
    }
  }

  static byte[] raw(AnyObjectId id) {
    byte[] raw = new byte[RefDecoder.ID_BYTES];
    id.copyRawTo(raw, 0);
    return raw;
  }
}

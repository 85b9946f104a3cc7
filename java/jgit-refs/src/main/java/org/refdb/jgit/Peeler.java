package org.refdb.jgit;

import java.io.IOException;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.SymbolicRef;
import org.eclipse.jgit.revwalk.RevObject;
import org.eclipse.jgit.revwalk.RevTag;
import org.eclipse.jgit.revwalk.RevWalk;

/** Peels refs that are not known to be peeled, by reading their objects. */
final class Peeler {
  private Peeler() {}

  static Ref peel(Repository repository, Ref ref) throws IOException {
    Ref leaf = ref.getLeaf();
    if (leaf.isPeeled() || leaf.getObjectId() == null) {
      return ref;
    }
    return withLeaf(ref, peelLeaf(repository, leaf));
  }

  private static Ref peelLeaf(Repository repository, Ref leaf) throws IOException {
    ObjectId id = leaf.getObjectId();
    long updateIndex = updateIndexOf(leaf);
    try (RevWalk walk = new RevWalk(repository)) {
      RevObject object = walk.parseAny(id);
      if (object instanceof RevTag) {
        ObjectId peeled = walk.peel(object).copy();
        return new ObjectIdRef.PeeledTag(leaf.getStorage(), leaf.getName(), id, peeled, updateIndex);
      }
      return new ObjectIdRef.PeeledNonTag(leaf.getStorage(), leaf.getName(), id, updateIndex);
    }
  }

  private static Ref withLeaf(Ref ref, Ref leaf) {
    return ref.isSymbolic() ? new SymbolicRef(ref.getName(), withLeaf(ref.getTarget(), leaf)) : leaf;
  }

  private static long updateIndexOf(Ref ref) {
    try {
      return ref.getUpdateIndex();
    } catch (UnsupportedOperationException e) {
      return Ref.UNDEFINED_UPDATE_INDEX;
    }
  }
}

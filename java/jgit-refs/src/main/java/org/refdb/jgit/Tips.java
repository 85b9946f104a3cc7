package org.refdb.jgit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.LongConsumer;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.Planted;
import org.refdb.engine.PointingRefs;
import org.refdb.engine.EngineView;
import org.refdb.engine.Unpacker;

/**
 * Finds the refs, including HEAD, that point to an object or to a tag of it.
 *
 * @param saw called with each version of the view from which an answer was made
 */
record Tips(Repository repository, EngineView view, LongConsumer saw) {
  /**
   * Returns the refs for each object, in the objects' order.
   *
   * @param ids distinct object ids
   */
  List<Set<Ref>> of(List<? extends ObjectId> ids) throws IOException {
    PointingRefs pointing = view.pointingAt(ids.stream().map(Edits::raw).toList());
    saw.accept(pointing.version());
    List<String> names = new ArrayList<>();
    names.add(Constants.HEAD);
    pointing.names().forEach(names::addAll);
    Unpacker refs = view.lookupMany(names);
    saw.accept(refs.lastI64());
    Ref head = RefDecoder.resolved(Constants.HEAD, refs);
    List<Set<Ref>> tips = new ArrayList<>();
    for (int at = 0; at < ids.size(); at++) {
      ObjectId id = ids.get(at);
      List<String> found = pointing.names().get(at);
      Set<Ref> tipsOfId = new HashSet<>();
      // If HEAD points to a branch, its object need not be checked for each id.
      boolean mayBeHead = head != null && (!head.isSymbolic() || found.contains(head.getLeaf().getName()));
      if (mayBeHead && leadsTo(head, id)) {
        tipsOfId.add(head);
      }
      for (String name : found) {
        Ref ref = RefDecoder.resolved(name, refs);
        if (leadsTo(ref, id)) {
          tipsOfId.add(ref);
        }
      }
      tips.add(tipsOfId);
    }
    return tips;
  }

  /** Returns whether a ref still leads to the object: it may have changed since it was found. */
  private boolean leadsTo(Ref ref, ObjectId id) throws IOException {
    if (ref == null || ref.getObjectId() == null) {
      return false;
    }
    if (Planted.ON && Planted.is("refs-13")) {
      return id.equals(ref.getObjectId());
    }
    return id.equals(ref.getObjectId()) || id.equals(peeled(ref));
  }

  /**
   * Returns the object to which a ref's tag leads; null if the ref does not point to a tag. Below refs/tags/ the lack
   * of a peeled line in packed-refs proves nothing, because git 2.55 leaves some out.
   */
  private ObjectId peeled(Ref ref) throws IOException {
    Ref leaf = ref.getLeaf();
    boolean isDoubtful = leaf.getPeeledObjectId() == null && leaf.getName().startsWith(Constants.R_TAGS);
    Ref looked = isDoubtful ? new ObjectIdRef.Unpeeled(leaf.getStorage(), leaf.getName(), leaf.getObjectId()) : ref;
    return Peeler.peel(repository, looked).getPeeledObjectId();
  }
}

package org.refdb.gerrit.refs;

import com.google.common.collect.Lists;
import com.google.common.flogger.FluentLogger;
import com.google.gerrit.entities.Project;
import com.google.gerrit.server.git.UploadPackInitializer;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.eclipse.jgit.errors.MissingObjectException;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevCommit;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.AdvertiseRefsHook;
import org.eclipse.jgit.transport.ReceivePack;
import org.eclipse.jgit.transport.RefFilter;
import org.eclipse.jgit.transport.RequestNotYetReadException;
import org.eclipse.jgit.transport.UploadPack;
import org.eclipse.jgit.transport.UploadPack.ReachableCommitTipRequestValidator;
import org.eclipse.jgit.transport.UploadPack.RequestPolicy;

/**
 * Checks the wants of a clone or fetch with the index from objects to refs, whereas JGit lists all refs and builds a
 * set of their ids.
 *
 * <p>During a fetch, JGit calls a hook that sets the refs which were advertised, here a lazy map of branches and tags,
 * and then a validator for the other wanted objects, which here looks them up by id. A tip may have moved a moment ago,
 * so objects that are not found are searched in the history of branches and tags. For the rest, JGit's own check with
 * all refs decides.
 *
 * <p>JGit calls the hook once per connection, which over SSH is before the fetch, so {@link LateCheck} checks there.
 * With the old protocol JGit sends a list of all refs first, so nothing is saved.
 */
@Singleton
final class WantedRefs implements UploadPackInitializer {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** How many wanted objects are looked up at once, which bounds the memory for the answers. */
  private static final int WANTS_AT_ONCE = 4096;

  /**
   * Limit of hidden refs, each of which costs a permission check. A million refs may point to one object and none of
   * them be visible; then Gerrit's filter of all refs is faster.
   */
  private static final int HIDDEN_MAX = 1000;

  private final RefdbRepositoryManager manager;

  @Inject
  WantedRefs(RefdbRepositoryManager manager) {
    this.manager = manager;
  }

  @Override
  public void init(Project.NameKey project, UploadPack upload) {
    if (upload.getAdvertiseRefsHook() != AdvertiseRefsHook.DEFAULT) {
      return; // another hook is set
    }
    LateCheck late = LateCheck.add(upload, (asking, wants) -> check(project, asking, near(asking), wants));
    upload.setAdvertiseRefsHook(
        new AdvertiseRefsHook() {
          @Override
          public void advertiseRefs(UploadPack asking) {
            if (!isPlain(asking) || !isOurs(project)) {
              return;
            }
            if (asking.isBiDirectionalPipe()) {
              late.begin(asking);
            } else if (isFetch(asking)) {
              RefMap near = near(asking);
              asking.setRequestValidator((up, wants) -> check(project, up, near, wants));
              asking.setAdvertisedRefs(near);
            }
          }

          @Override
          public void advertiseRefs(ReceivePack push) {}
        });
  }

  /** Returns a map of the refs that the user may see. It lists branches and tags only when it is iterated. */
  static RefMap near(UploadPack upload) {
    return new RefMap(upload.getRepository().getRefDatabase());
  }

  /** Returns whether refdb serves the project's refs, so that they can be looked up by object. */
  private boolean isOurs(Project.NameKey project) {
    try (Repository repository = manager.openRepository(project)) {
      return repository instanceof RefdbRepository;
    } catch (IOException e) {
      logger.atWarning().withCause(e).log("cannot open %s for a fetch; JGit lists all refs", project);
      return false;
    }
  }

  /** Returns whether JGit calls the hook for a fetch that it has read, and not in order to list refs for the client. */
  private static boolean isFetch(UploadPack upload) {
    try {
      upload.getDepth();
      return true;
    } catch (RequestNotYetReadException e) {
      return false;
    }
  }

  /** Returns whether only Gerrit's permissions decide which refs and objects the client may have. */
  private static boolean isPlain(UploadPack upload) {
    return upload.getRequestPolicy() == RequestPolicy.ADVERTISED
        && upload.getRefFilter() == RefFilter.DEFAULT
        && upload.getRepository().getConfig().getStringList("uploadpack", null, "hiderefs").length == 0;
  }

  private void check(Project.NameKey project, UploadPack upload, RefMap near, List<ObjectId> wants) throws IOException {
    List<ObjectId> left = new ArrayList<>();
    try (Repository repository = manager.openRepository(project)) {
      VisibleTips visible = new VisibleTips(near.visible());
      for (List<ObjectId> some : Lists.partition(wants, WANTS_AT_ONCE)) {
        List<Set<Ref>> tips = tips(repository, some);
        for (int at = 0; at < some.size(); at++) {
          if (!visible.hasOneOf(tips.get(at))) {
            left.add(some.get(at));
          }
        }
      }
    }
    if (!left.isEmpty() && !isInHistory(left, near, upload)) {
      new ReachableCommitTipRequestValidator().checkWants(upload, left);
    }
  }

  /**
   * Returns the refs that point to each of some objects. They are looked up together, because a clone may want
   * thousands, and with files each query reads all loose refs.
   */
  private static List<Set<Ref>> tips(Repository repository, List<ObjectId> wants) throws IOException {
    return repository instanceof RefdbRepository ours
        ? ours.tips(wants)
        : RefdbRepository.tipsOneByOne(repository.getRefDatabase(), wants);
  }

  /**
   * Checks which refs the user may see. After {@link #HIDDEN_MAX} hidden ones it checks no more, and leaves the rest to
   * JGit's check.
   */
  private static final class VisibleTips {
    private final RefDatabase visible;
    private int hidden;

    VisibleTips(RefDatabase visible) {
      this.visible = visible;
    }

    /**
     * Returns whether the user may see at least one of these refs, as far as they are checked: up to the first visible
     * one, or until {@link #HIDDEN_MAX} hidden ones were met.
     */
    boolean hasOneOf(Set<Ref> tips) throws IOException {
      for (Ref ref : tips) {
        if (hidden == HIDDEN_MAX) {
          return false;
        }
        if (visible.exactRef(ref.getName()) != null) {
          return true;
        }
        hidden++;
      }
      return false;
    }
  }

  /** Returns whether all wanted objects are commits in the history of branches and tags. */
  private static boolean isInHistory(List<ObjectId> wants, RefMap near, UploadPack upload) throws IOException {
    try (RevWalk walk = new RevWalk(upload.getRevWalk().getObjectReader())) {
      walk.setRetainBody(false);
      List<RevCommit> commits = new ArrayList<>();
      for (ObjectId want : wants) {
        if (!(walk.parseAny(want) instanceof RevCommit commit)) {
          return false;
        }
        commits.add(commit);
      }
      Stream<RevCommit> tips = near.values().stream().map(ref -> commitOf(ref, walk)).filter(Objects::nonNull);
      return walk.getObjectReader().createReachabilityChecker(walk).areAllReachable(commits, tips).isEmpty();
    } catch (MissingObjectException e) {
      return false; // the error of JGit's check names the object
    }
  }

  private static RevCommit commitOf(Ref ref, RevWalk walk) {
    ObjectId id = ref.getPeeledObjectId() != null ? ref.getPeeledObjectId() : ref.getObjectId();
    try {
      return id != null && walk.parseAny(id) instanceof RevCommit commit ? commit : null;
    } catch (IOException e) {
      return null; // a ref without its object leads to nothing
    }
  }
}

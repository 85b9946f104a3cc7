package org.refdb.gerrit.global.transaction;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.eclipse.jgit.lib.Constants;
import org.refdb.engine.BatchResult;
import org.refdb.engine.EngineException;
import org.refdb.engine.GlobalIntent;
import org.refdb.engine.GlobalRef;
import org.refdb.engine.RefBatch;
import org.refdb.engine.EngineView;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/**
 * Settles intents: first the mark is closed, so that the transaction can no longer be applied, unless it was applied
 * already; then each ref whose new value etcd has is set on disk and, if there is such a ref, also those that etcd does
 * not store, except refs that were updated since. The intent's other refs stay as they are. If the intent is of a
 * rename that etcd has accepted, a HEAD that leads to the old name is made to lead to the new one.
 */
public final class Intents {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  /**
   * Rejections that mean that the ref no longer has the value it had before the intent: it has the new value already,
   * or was updated since.
   */
  private static final Set<BatchResult.Reason> MOVED =
      EnumSet.of(
          BatchResult.Reason.INCORRECT_OLD_VALUE, BatchResult.Reason.CREATE_EXISTS, BatchResult.Reason.NONEXISTENT_REF);

  /** Outcome of settling an intent. */
  public enum Outcome {
    /** The batch of the intent is still running in this process. */
    UNDER_WAY,
    /**
     * The refs whose new values etcd has, and those that it does not store, were set on disk, unless they were updated
     * since.
     */
    FINISHED,
    /** None of the refs of the intent was changed on disk. */
    DROPPED;

    public String text() {
      return name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
  }

  private final GlobalRefs refs;

  /** Ids of the intents of batches that are running in this process. */
  private final Set<String> live = ConcurrentHashMap.newKeySet();

  public Intents(GlobalRefs refs) {
    this.refs = refs;
  }

  public void begin(String id) {
    live.add(id);
  }

  public void end(String id) {
    live.remove(id);
  }

  /** Returns whether this node wrote the intent; false if its mark is not in refdb's format. */
  public boolean isOfThisNode(GlobalIntent intent) {
    try {
      return IntentMark.parse(intent.mark()).node().equals(refs.nodeName());
    } catch (GlobalRefException e) {
      return false;
    }
  }

  /**
   * Returns why a process may still be running the batch of an intent, or nothing if none is: a batch holds the locks
   * of its refs as long as its intent may change, so none is running if one of its refs could be locked while the
   * intent existed.
   */
  public Optional<String> underWay(EngineView view, GlobalIntent intent) throws IOException {
    if (isOfThisNode(intent)) {
      return live.contains(intent.id()) ? Optional.of("this Gerrit is running it") : Optional.empty();
    }
    RefBatch look = new RefBatch(true, false).agreed();
    look.edit(intent.refs().getFirst().name()).verify().expectAnything().end(false, null, false);
    try {
      // A held lock is a rejection with files and an exception with reftables.
      List<BatchResult.Rejection> rejections = view.commit(look).rejections();
      if (!rejections.isEmpty()) {
        return Optional.of(rejections.getFirst().text());
      }
    } catch (EngineException e) {
      if (e.kind() == EngineException.Kind.LOCKED) {
        return Optional.of(e.getMessage());
      }
      throw e;
    }
    return view.globalIntents().contains(intent) ? Optional.empty() : Optional.of("it has moved on meanwhile");
  }

  /** Returns whether etcd has the new value of any ref of an intent at the moment. */
  public boolean isAgreed(String project, GlobalIntent intent, Predicate<String> isStored) throws GlobalRefException {
    return !agreed(project, intent, isStored).isEmpty();
  }

  private List<GlobalRef> agreed(String project, GlobalIntent intent, Predicate<String> isStored)
      throws GlobalRefException {
    List<GlobalRef> stored = intent.refs().stream().filter(ref -> isStored.test(ref.name())).toList();
    List<Optional<String>> values = refs.values(project, stored.stream().map(GlobalRef::name).toList());
    List<GlobalRef> agreed = new ArrayList<>();
    for (int i = 0; i < stored.size(); i++) {
      if (isNew(values.get(i), stored.get(i))) {
        agreed.add(stored.get(i));
      }
    }
    return agreed;
  }

  /**
   * Settles an intent.
   *
   * @throws GlobalRefException if etcd refuses or does not answer, or if something in etcd or in the intent is not in
   *     refdb's format
   * @throws IOException if the refs cannot be written
   */
  public Outcome settle(String project, EngineView view, GlobalIntent intent, Predicate<String> isStored)
      throws GlobalRefException, IOException {
    if (live.contains(intent.id())) {
      return Outcome.UNDER_WAY;
    }
    IntentMark mark = IntentMark.parse(intent.mark());
    mark.close(refs.etcd(), refs.keys(), refs.deadline());
    if (mark.staged()) {
      refs.stages().close(new Decider(mark.node(), intent.id()), refs.deadline());
    }
    List<GlobalRef> agreed = agreed(project, intent, isStored);
    Outcome outcome = agreed.isEmpty() ? Outcome.DROPPED : Outcome.FINISHED;
    if (outcome == Outcome.FINISHED) {
      // etcd has new values of the batch, so the refs that it does not store are to be updated too.
      intent.refs().stream().filter(ref -> !isStored.test(ref.name())).forEach(agreed::add);
      finish(view, intent.id(), agreed);
      if (mark.isRename()) {
        followRename(view, intent);
      }
    }
    view.removeGlobalIntent(intent.id());
    log.atInfo().log(
        "an update of %d refs of %s that was not finished is %s now", intent.refs().size(), project,
        outcome.text());
    return outcome;
  }

  private static boolean isNew(Optional<String> value, GlobalRef ref) {
    return value.isPresent() && (ref.newId() == null ? Values.isDeleted(value.get()) : value.get().equals(ref.newId()));
  }

  /** Sets refs on disk, unless somebody else has settled the intent since its values were read from etcd. */
  private static void finish(EngineView view, String id, List<GlobalRef> agreed) throws IOException {
    RefBatch batch = new RefBatch(false, false).settling(id);
    batch.committer("refdb", "refdb@localhost", Instant.now().getEpochSecond(), 0);
    for (GlobalRef ref : agreed) {
      RefBatch.Edit edit = batch.edit(ref.name());
      edit = ref.newId() == null ? edit.delete() : edit.set(raw(ref.newId()));
      edit = ref.oldId() == null ? edit.expectNothing() : edit.expectId(raw(ref.oldId()));
      edit.end(false, "global: finished, since etcd had it", false);
    }
    for (BatchResult.Rejection rejection : view.commit(batch).rejections()) {
      if (!MOVED.contains(rejection.reason())) {
        throw new IOException(
            "etcd has a value of "
                + rejection.name()
                + " that this disk cannot have: "
                + rejection.text());
      }
    }
  }

  /**
   * Makes a HEAD that leads to the old name of a renamed ref lead to the new one. Whoever renamed the ref did so
   * before, and changed HEAD back without knowing the outcome.
   */
  private static void followRename(EngineView view, GlobalIntent intent) throws IOException {
    List<GlobalRef> made = intent.refs().stream().filter(ref -> ref.oldId() == null).toList();
    List<GlobalRef> gone = intent.refs().stream().filter(ref -> ref.newId() == null).toList();
    if (made.size() != 1 || gone.size() != 1) {
      return;
    }
    RefBatch batch = new RefBatch(false, false).settling(intent.id());
    RefBatch.Edit edit = batch.edit(Constants.HEAD).link(made.getFirst().name());
    edit.expectLink(gone.getFirst().name()).end(false, null, false);
    for (BatchResult.Rejection rejection : view.commit(batch).rejections()) {
      // HEAD may lead elsewhere, which is as well; but another program's lock means that this has to be tried again.
      if (!MOVED.contains(rejection.reason())) {
        throw new IOException("HEAD cannot follow a rename: " + rejection.text());
      }
    }
  }

  private static byte[] raw(String id) {
    return HexFormat.of().parseHex(id);
  }
}

package org.refdb.gerrit.global;

import com.google.gerrit.entities.RefNames;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.refdb.engine.Arbiter;
import org.refdb.engine.GlobalRef;
import org.refdb.gerrit.global.Slot.Branch;
import org.refdb.gerrit.global.Slot.Result;
import org.refdb.jgit.NotAgreedException;
import org.refdb.jgit.NotAgreedException.Why;

/**
 * Asks etcd about one batch while its refs are locked: all old values and the mark in one transaction. It guesses how etcd
 * has them. If etcd refuses that, but its values allow the batch all the same, it asks once more for exactly those.
 */
final class Question extends Arbiter implements AutoCloseable {
  /** The generation, the mark, the inner transaction of a refusal, and what that does. */
  private static final int OPS_BESIDES_REFS = 4;

  /** A larger batch does not ask for values along: they are a third of its request, and seldom wanted. */
  private static final int READS_ALONG_MAX = 124;

  private static final String NOTHING_CHANGED = "Nothing was changed";

  private final GlobalRefs refs;
  private final String project;
  private final Predicate<String> isStored;
  private final Consumer<String> begun;

  /** Begins when the refs are locked. Before that others were waited for. */
  private Deadline deadline;

  /** When the first request was on its way; 0 before. */
  private long asked;

  private long answered;

  private List<GlobalRef> stored;
  private Generation generation;

  /** What each stored ref must be in etcd, and whether it gets its new value there. */
  private List<Cmp> compares;

  private List<Op> puts;
  private Slot slot;
  private String intentId;
  private NotAgreedException failure;

  /** What etcd has, if another node has moved a ref. */
  private Moved moved;
  private boolean isAgreed;
  private boolean isUnknown;

  /**
   * @param begun is told the intent's id before there is one
   */
  Question(GlobalRefs refs, String project, Predicate<String> isStored, Consumer<String> begun) {
    this.begun = begun;
    this.refs = refs;
    this.project = project;
    this.isStored = isStored;
  }

  /** A ref that is not as this disk has it, and etcd's entry of it. */
  private record Moved(String text, Optional<KeyValue> entry) {}

  /**
   * Why it did not agree; null if it did, or was not asked. Asks etcd who has moved a ref: no lock is held any more.
   */
  NotAgreedException failure() {
    if (moved != null) {
      String who = moved.entry().flatMap(entry -> Mover.of(refs, entry)).orElse("another node");
      failure =
          new NotAgreedException(
              Why.DIFFERS, moved.text() + ": " + who + " has moved it. Try again once this node has it, or see `refdb-global compare`",
              null);
      moved = null;
    }
    return failure;
  }

  /** The intent, once there may be one; null before. */
  String intentId() {
    return intentId;
  }

  /** Whether an intent stays if the engine does not say that the batch is done. */
  boolean leavesIntent() {
    return isAgreed || isUnknown;
  }

  @Override
  protected Verdict begin(List<GlobalRef> changes) {
    deadline = Deadline.in(refs.etcd().settings().underLocks(), refs.etcd().settings().requestTimeout());
    stored = changes.stream().filter(ref -> isStored.test(ref.name())).toList();
    if (stored.isEmpty()) {
      return new Verdict.Agreed();
    }
    int most = refs.etcd().settings().txnOps() - OPS_BESIDES_REFS;
    if (stored.size() > most) {
      return refused(
          Why.TOO_MANY,
          stored.size() + " refs of " + project + " would change at once, and etcd takes " + most
              + " in one transaction. For more raise its --max-txn-ops and refdb.global.maxTxnOps",
          null);
    }
    try {
      generation = refs.projects().findOrBegin(project, deadline);
      slot = refs.slots().take(deadline);
    } catch (GlobalRefException e) {
      return away(e);
    } catch (RuntimeException e) {
      return away(new GlobalRefException("etcd cannot be asked: " + e, e));
    }
    guess();
    intentId = mark().intentId();
    begun.accept(intentId);
    return ask(mark());
  }

  private IntentMark mark() {
    return IntentMark.of(refs.nodeName(), refs.keys(), slot);
  }

  private Verdict ask(IntentMark mark) {
    return new Verdict.Ask(intentId, mark.text());
  }

  /** As it is nearly always. */
  private void guess() {
    compares = new ArrayList<>();
    puts = new ArrayList<>();
    for (GlobalRef ref : stored) {
      ByteSequence key = key(ref);
      compares.add(ref.oldId() == null ? Etcd.isAbsent(key) : Etcd.is(key, ref.oldId()));
      puts.add(put(ref));
    }
  }

  private ByteSequence key(GlobalRef ref) {
    return refs.keys().value(generation, ref.name());
  }

  private Op put(GlobalRef ref) {
    return Op.put(key(ref), Keys.bytes(next(ref)), PutOption.DEFAULT);
  }

  private static String next(GlobalRef ref) {
    return ref.newId() == null ? Values.DELETED.getFirst() : ref.newId();
  }

  @Override
  protected Verdict ask() {
    if (asked == 0) {
      asked = System.nanoTime();
    }
    Verdict verdict = verdict();
    // Others may need it before this batch is made, since its group waits for their answers. An intent has the name of its
    // mark: who has the same mark next would meet it.
    if (!(verdict instanceof Verdict.Ask) && !mark().intentId().equals(intentId)) {
      giveBackSlot();
    }
    return verdict;
  }

  private Verdict verdict() {
    try {
      Verdict verdict = askOnce();
      isAgreed = verdict instanceof Verdict.Agreed;
      return verdict;
    } catch (GlobalRefException e) {
      return slot.isUnresolved() ? unknown(e) : away(e);
    } catch (RuntimeException e) {
      GlobalRefException wrapped = new GlobalRefException("etcd cannot be asked: " + e, e);
      return slot.isUnresolved() ? unknown(wrapped) : away(wrapped);
    } finally {
      answered = System.nanoTime();
    }
  }

  private void giveBackSlot() {
    if (slot != null) {
      refs.slots().giveBack(slot);
      slot = null;
    }
  }

  private Verdict askOnce() throws GlobalRefException {
    List<Cmp> all = new ArrayList<>(compares);
    all.add(refs.projects().is(project, generation));
    boolean isLarge = stored.size() > READS_ALONG_MAX;
    Result result = slot.once(List.of(new Branch(all, puts)), isLarge ? List.of() : reads(), deadline);
    switch (result.outcome()) {
      case DONE -> {
        refs.counts().updates.increment();
        return new Verdict.Agreed();
      }
      case VOID -> {
        return again("did not answer in time");
      }
      case REFUSED -> {
        if (isLarge) {
          return exact(refs.etcd().commitAgain(List.of(), reads(), List.of(), deadline).getGetResponses());
        }
        if (result.reads().isEmpty()) {
          // Only the mark has told of it.
          return again("refused the update, and did not say in time why");
        }
        return exact(result.reads());
      }
    }
    throw new IllegalStateException("no outcome: " + result);
  }

  private List<Op> reads() {
    List<Op> reads = new ArrayList<>();
    reads.add(Etcd.get(refs.keys().project(project)));
    stored.forEach(ref -> reads.add(Etcd.get(key(ref))));
    return reads;
  }

  private Verdict again(String what) {
    if (deadline.pause()) {
      return ask(mark());
    }
    return away(new GlobalRefException(
        "etcd at " + String.join(", ", refs.etcd().settings().endpoints()) + " " + what, null));
  }

  /** Whether what etcd has allows the batch: then exactly that is compared next. */
  private Verdict exact(List<GetResponse> reads) throws GlobalRefException {
    Optional<Generation> now = refs.projects().remember(project, Etcd.text(reads.getFirst()));
    if (!now.map(Generation::id).equals(Optional.of(generation.id()))) {
      return refused(Why.DIFFERS, project + " was removed or renamed while its refs were updated. Try again", null);
    }
    generation = now.get();
    compares = new ArrayList<>();
    puts = new ArrayList<>();
    for (int i = 0; i < stored.size(); i++) {
      GlobalRef ref = stored.get(i);
      Optional<KeyValue> entry = Etcd.first(reads.get(i + 1));
      Optional<String> value = entry.map(Etcd::text);
      // Two nodes that count up to the same number have not done the same.
      boolean catchesUp =
          value.equals(Optional.of(next(ref))) && !ref.name().startsWith(RefNames.REFS_SEQUENCES);
      if (!catchesUp && !isAsOnDisk(ref, value)) {
        return differs(ref, entry);
      }
      compares.add(entry.isEmpty() ? Etcd.isAbsent(key(ref)) : Etcd.isChangedAt(key(ref), entry.get().getModRevision()));
      if (!catchesUp) {
        puts.add(put(ref));
      }
    }
    return again("has other values each time");
  }

  private boolean isAsOnDisk(GlobalRef ref, Optional<String> value) {
    if (value.isEmpty()) {
      // In an imported project an absent ref does not exist, in others etcd has never seen it.
      return ref.oldId() == null || !generation.imported();
    }
    return ref.oldId() == null ? Values.isDeleted(value.get()) : value.get().equals(ref.oldId());
  }

  private Verdict differs(GlobalRef ref, Optional<KeyValue> entry) {
    String there = Values.live(entry.map(Etcd::text)).orElse("no such ref");
    String here = ref.oldId() == null ? "none" : ref.oldId();
    refs.counts().refused.increment();
    moved = new Moved("etcd has " + there + " for " + ref.name() + " of " + project + ", and this node's disk has " + here, entry);
    return new Verdict.Refused();
  }

  private Verdict refused(Why why, String message, Throwable cause) {
    refs.counts().refused.increment();
    failure = new NotAgreedException(why, message, cause);
    return new Verdict.Refused();
  }

  private Verdict away(GlobalRefException why) {
    refs.counts().failed.increment();
    String message = why.getMessage();
    String end = message.endsWith(NOTHING_CHANGED) ? "" : ". " + NOTHING_CHANGED;
    failure = new NotAgreedException(Why.NO_ANSWER, message + end, why);
    return new Verdict.Refused();
  }

  private Verdict unknown(GlobalRefException why) {
    refs.counts().failed.increment();
    isUnknown = true;
    failure = new NotAgreedException(Why.NO_ANSWER, why.getMessage(), why);
    return new Verdict.Unknown();
  }

  @Override
  public void close() {
    if (asked != 0) {
      refs.counts().updateTook.accept(answered - asked);
    }
    giveBackSlot();
  }
}

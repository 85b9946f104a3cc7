package org.refdb.gerrit.global.transaction;

import static java.nio.charset.StandardCharsets.UTF_8;

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
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.Slot.Branch;
import org.refdb.gerrit.global.transaction.Slot.Result;
import org.refdb.gerrit.global.transaction.StagedBatch.Met;
import org.refdb.gerrit.global.transaction.Stages.Effective;
import org.refdb.jgit.NotAgreedException;
import org.refdb.jgit.NotAgreedException.Why;

/**
 * Asks etcd about one batch while its refs are locked: all old values and the mark in one transaction. It guesses how etcd
 * has them. If etcd refuses that, but its values allow the batch all the same, it asks once more for exactly those.
 */
public final class EtcdArbiter extends Arbiter implements AutoCloseable {
  /** The generation, the mark, the inner transaction of a refusal, and what that does. */
  private static final int OPS_BESIDES_REFS = 4;

  /** A larger batch does not ask for values along: they are a third of its request, and seldom wanted. */
  private static final int READS_ALONG_MAX = 124;

  /** The engine reads no longer record. */
  private static final long RECORD_BYTES_MAX = 16L << 20;

  /** Both ids, and words. */
  private static final long RECORD_BYTES_BESIDES_NAME = 140;

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

  /** Where etcd does not take the batch at once; null otherwise, and once it is decided. */
  private StagedBatch staged;
  private String intentId;
  private NotAgreedException failure;

  /** What etcd has, if another node has moved a ref. */
  private Moved moved;
  private Ahead ahead;
  private boolean isAgreed;
  private boolean isUnknown;

  /**
   * @param begun is told the intent's id before there is one
   */
  public EtcdArbiter(GlobalRefs refs, String project, Predicate<String> isStored, Consumer<String> begun) {
    this.begun = begun;
    this.refs = refs;
    this.project = project;
    this.isStored = isStored;
  }

  /**
   * A ref that another node has moved.
   *
   * @param here what this disk has; null for none
   */
  public record Ahead(String ref, String here, String there) {}

  /** A ref that is not as this disk has it, and etcd's entry of it. */
  private record Moved(String text, Optional<KeyValue> entry) {}

  /**
   * Why it did not agree; null if it did, or was not asked. Asks etcd who has moved a ref: no lock is held any more.
   */
  public NotAgreedException failure() {
    if (moved != null) {
      String who = moved.entry().flatMap(entry -> LastWriter.of(refs, entry)).orElse("another node");
      failure =
          new NotAgreedException(
              Why.DIFFERS, moved.text() + ": " + who + " has moved it. Try again once this node has it, or see `refdb-global compare`",
              null);
      moved = null;
    }
    return failure;
  }

  /** The ref for which it did not agree, if etcd has it, and otherwise. */
  public Optional<Ahead> ahead() {
    return Optional.ofNullable(ahead);
  }

  /** The intent, once there may be one; null before. */
  public String intentId() {
    return intentId;
  }

  /** Whether an intent stays if the engine does not say that the batch is done. */
  public boolean leavesIntent() {
    return isAgreed || isUnknown;
  }

  @Override
  protected Verdict begin(List<GlobalRef> changes) {
    deadline = Deadline.in(refs.etcd().settings().underLocks(), refs.etcd().settings().requestTimeout());
    stored = changes.stream().filter(ref -> isStored.test(ref.name())).toList();
    if (stored.isEmpty()) {
      return new Verdict.Agreed();
    }
    if (recordBytes(changes) > RECORD_BYTES_MAX) {
      return refused(
          Why.TOO_MANY, changes.size() + " refs of " + project + " would change at once: more than the record of an update can hold", null);
    }
    try {
      generation = refs.projects().findOrBegin(project, deadline);
      slot = refs.slots().take(deadline);
    } catch (GlobalRefException e) {
      return away(e);
    } catch (RuntimeException e) {
      return away(new GlobalRefException("etcd cannot be asked: " + e, e));
    }
    Settings settings = refs.etcd().settings();
    boolean isStaged =
        stored.size() > settings.txnOps() - OPS_BESIDES_REFS || StagedBatch.bytes(settings, stored) > settings.requestBytes();
    intentId = mark().intentId();
    begun.accept(intentId);
    if (isStaged) {
      staged = new StagedBatch(refs, project, generation, new Decider(refs.nodeName(), intentId), stored);
    } else {
      guess();
    }
    return ask(mark());
  }

  /** As long as the intent is, or a little longer. */
  private static long recordBytes(List<GlobalRef> changes) {
    return changes.stream().mapToLong(ref -> ref.name().getBytes(UTF_8).length + RECORD_BYTES_BESIDES_NAME).sum();
  }

  private IntentMark mark() {
    return IntentMark.of(refs.nodeName(), refs.keys(), slot, staged != null);
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
    return Op.put(key(ref), Keys.bytes(AllowedValues.next(ref)), PutOption.DEFAULT);
  }

  @Override
  protected Verdict ask() {
    if (asked == 0) {
      asked = System.nanoTime();
    }
    Verdict verdict = verdict();
    if (staged != null && verdict instanceof Verdict.Refused) {
      staged.withdraw(slot);
    }
    if (staged != null && !(verdict instanceof Verdict.Ask)) {
      staged.end();
      staged = null;
    }
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
    if (staged != null) {
      return askStaged();
    }
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

  private Verdict askStaged() throws GlobalRefException {
    Optional<Met> met = staged.stage(slot, deadline);
    if (met.isPresent()) {
      return switch (met.get()) {
        case Met.Other other -> differs(other.ref(), other.entry(), other.value());
        case Met.End end -> refused(Why.DIFFERS, project + ": " + end.why(), null);
      };
    }
    Result result = staged.decide(slot, deadline);
    return switch (result.outcome()) {
      case DONE -> {
        refs.counts().updates.increment();
        yield new Verdict.Agreed();
      }
      case VOID -> again("did not answer in time");
      case REFUSED ->
          refused(
              Why.DIFFERS,
              project + " was imported, removed or renamed while its refs were updated, or that took longer than"
                  + " refdb.global.underLocks of another node. Try again",
              null);
    };
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
      Optional<String> value = Optional.empty();
      if (entry.isPresent()) {
        Optional<Effective> effective = refs.stages().look(entry.get(), deadline);
        if (effective.isEmpty() || effective.get().open().isPresent()) {
          return afterBatch(ref, effective.flatMap(Effective::open));
        }
        value = effective.get().value();
      }
      boolean catchesUp = AllowedValues.catchesUp(ref, value);
      if (!catchesUp && !AllowedValues.isAsOnDisk(ref, value, generation.imported())) {
        return differs(ref, entry, value);
      }
      compares.add(entry.isEmpty() ? Etcd.isAbsent(key(ref)) : Etcd.isChangedAt(key(ref), entry.get().getModRevision()));
      if (!catchesUp) {
        puts.add(put(ref));
      }
    }
    return again("has other values each time");
  }

  /** A ref is in a batch that is not decided, or was a moment ago. The guess is good enough to ask again. */
  private Verdict afterBatch(GlobalRef ref, Optional<Decider> open) throws GlobalRefException {
    guess();
    if (open.isPresent()) {
      refs.stages().met(open.get(), deadline);
    }
    return again("cannot change " + ref.name() + open.map(one -> ": " + Stages.isIn(one)).orElse(""));
  }

  private Verdict differs(GlobalRef ref, Optional<KeyValue> entry, Optional<String> value) {
    String there = Values.live(value).orElse("no such ref");
    String here = ref.oldId() == null ? "none" : ref.oldId();
    refs.counts().refused.increment();
    ahead = Values.live(value).map(live -> new Ahead(ref.name(), ref.oldId(), live)).orElse(null);
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
    if (staged != null) {
      staged.end();
    }
    giveBackSlot();
  }
}

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
import org.refdb.engine.Planted;
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
 * Decides one batch in etcd while its refs are locked: one transaction compares all old values and the mark, or several
 * if the batch is staged. The first one assumes that etcd has the same values as the disk; if etcd refuses, but its
 * values allow the batch nevertheless, the next one compares exactly those.
 */
public final class EtcdArbiter extends Arbiter implements AutoCloseable {
  /**
   * Operations besides those for refs: the generation, the mark, the nested transaction of a refusal, and the operation
   * in that transaction.
   */
  private static final int OPS_BESIDES_REFS = 4;

  /**
   * Maximum number of refs whose current values are read in the request of the update. These reads make up a third of
   * the request and are seldom needed, so a larger batch reads the values separately.
   */
  private static final int READS_ALONG_MAX = 124;

  /** The length in bytes of the longest intent that the engine reads. */
  private static final long RECORD_BYTES_MAX = 16L << 20;

  /** Bytes of an intent per ref, besides its name: both ids and some words. */
  private static final long RECORD_BYTES_BESIDES_NAME = 140;

  private static final String NOTHING_CHANGED = "Nothing was changed";

  private final GlobalRefs refs;
  private final String project;
  private final Predicate<String> isStored;
  private final boolean isRename;
  private final Consumer<String> begun;

  /** Starts when the refs are locked; waiting for their locks does not count. */
  private Deadline deadline;

  /** When etcd was first asked to accept the batch; 0 before. */
  private long asked;

  private long answered;

  private List<GlobalRef> stored;
  private Generation generation;

  /** A comparison for each stored ref. */
  private List<Cmp> compares;

  /** Puts of the stored refs that change in etcd. */
  private List<Op> puts;
  private Slot slot;

  /** Set while a batch that is too large for one transaction is not decided. */
  private StagedBatch staged;
  private String intentId;
  private NotAgreedException failure;

  /** Set if etcd has another value for a ref than this disk. */
  private Moved moved;
  private Ahead ahead;
  private boolean isAgreed;
  private boolean isUnknown;

  /**
   * @param isRename whether the batch renames a ref
   * @param begun is given the id of the intent before the intent is written
   */
  public EtcdArbiter(
      GlobalRefs refs, String project, Predicate<String> isStored, boolean isRename, Consumer<String> begun) {
    this.begun = begun;
    this.isRename = isRename;
    this.refs = refs;
    this.project = project;
    this.isStored = isStored;
  }

  /**
   * A ref that exists in etcd with another value than on this disk.
   *
   * @param here this disk's value; null for none
   */
  public record Ahead(String ref, String here, String there) {}

  /** A ref whose value in etcd is not the one on this disk, with its entry in etcd. */
  private record Moved(String text, Optional<KeyValue> entry) {}

  /**
   * Returns why the batch was refused or its outcome is unknown; null if neither is so. Reads from etcd which node has
   * updated a ref, so call this after the locks are released.
   */
  public NotAgreedException failure() {
    if (moved != null) {
      String who = moved.entry().flatMap(entry -> LastWriter.of(refs, entry)).orElse("another node");
      failure =
          new NotAgreedException(
              Why.DIFFERS,
              moved.text()
                  + ": "
                  + who
                  + " has moved it. Try again once this node has it, or see `refdb-global compare`",
              null);
      moved = null;
    }
    return failure;
  }

  /**
   * The ref that made etcd refuse the batch, if etcd has another value for it than the disk and not that of a deleted
   * ref.
   */
  public Optional<Ahead> ahead() {
    return Optional.ofNullable(ahead);
  }

  /** The id of the intent; null unless {@link #begin} has chosen one. */
  public String intentId() {
    return intentId;
  }

  /**
   * Returns whether the intent must stay on disk if the batch fails, because etcd has accepted the batch or may have.
   */
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
          Why.TOO_MANY,
          changes.size()
              + " refs of "
              + project
              + " would change at once: more than the record of an update can hold",
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
    Settings settings = refs.etcd().settings();
    boolean isStaged =
        stored.size() > settings.txnOps() - OPS_BESIDES_REFS
            || StagedBatch.bytes(settings, stored) > settings.requestBytes();
    intentId = mark().intentId();
    begun.accept(intentId);
    if (isStaged) {
      staged = new StagedBatch(refs, project, generation, new Decider(refs.nodeName(), intentId), stored);
    } else {
      guess();
    }
    return ask(mark());
  }

  /** Upper bound of the length of the intent in bytes. */
  private static long recordBytes(List<GlobalRef> changes) {
    return changes.stream().mapToLong(ref -> ref.name().getBytes(UTF_8).length + RECORD_BYTES_BESIDES_NAME).sum();
  }

  private IntentMark mark() {
    return IntentMark.of(refs.nodeName(), refs.keys(), slot, isRename, staged != null);
  }

  private Verdict ask(IntentMark mark) {
    return new Verdict.Ask(intentId, mark.text());
  }

  /** Prepares the request for the usual case, in which etcd has the values that the disk has. */
  private void guess() {
    compares = new ArrayList<>();
    puts = new ArrayList<>();
    for (GlobalRef ref : stored) {
      ByteSequence key = key(ref);
      if (!Planted.ON || !Planted.is("global-05")) {
        compares.add(ref.oldId() == null ? Etcd.isAbsent(key) : Etcd.is(key, ref.oldId()));
      }
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
    // The engine may write this batch together with others once all of them have their answers, so another one may need
    // the slot now. But an intent is named after the mark, so the slot is kept while the next batch with this slot
    // would give its intent the same name.
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
    } catch (RuntimeException | Error e) { // also an OutOfMemoryError: else nothing would settle the intent
      GlobalRefException wrapped = new GlobalRefException("etcd cannot be asked: " + e, e);
      // After an Error, etcd may have answered without this being noted.
      return e instanceof Error || slot.isUnresolved() ? unknown(wrapped) : away(wrapped);
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
          // The outcome is known from the mark only.
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
              project + " was imported or removed while its refs were updated, or that took longer than"
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

  /** Checks whether etcd's values allow the batch, so that exactly those are compared next. */
  private Verdict exact(List<GetResponse> reads) throws GlobalRefException {
    Optional<Generation> now = refs.projects().remember(project, Etcd.text(reads.getFirst()));
    if (!now.map(Generation::id).equals(Optional.of(generation.id()))) {
      return refused(Why.DIFFERS, project + " was removed while its refs were updated. Try again", null);
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
      compares.add(
          entry.isEmpty()
              ? Etcd.isAbsent(key(ref))
              : Etcd.isChangedAt(key(ref), entry.get().getModRevision()));
      if (!catchesUp) {
        puts.add(put(ref));
      }
    }
    return again("has other values each time");
  }

  /**
   * Pauses because an undecided batch has staged a ref, or the stage has changed, and closes the batch if it has been open
   * for too long. The next attempt assumes the usual case again (see {@link #guess}).
   */
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
    moved =
        new Moved(
            "etcd has "
                + there
                + " for "
                + ref.name()
                + " of "
                + project
                + ", and this node's disk has "
                + here,
            entry);
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

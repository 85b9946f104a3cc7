package org.refdb.gerrit.global.transaction;

import com.google.common.flogger.FluentLogger;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.refdb.engine.GlobalRef;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.Decider.State;
import org.refdb.gerrit.global.transaction.Slot.Branch;
import org.refdb.gerrit.global.transaction.Slot.Result;
import org.refdb.gerrit.global.transaction.Stages.Effective;

/**
 * A batch that is too large for one transaction of etcd. Each of its parts puts stages beside the old values, then one
 * transaction decides all of them. Parts are sorted by name, so that two batches cannot wait for each other.
 */
public final class StagedBatch {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  /** Operations of a part besides those for refs: at most three comparisons or two puts, and a spare one. */
  private static final int OPS_BESIDES_REFS = 4;

  /** Limit of a part in bytes, which leaves room for the rest of the request. */
  private static final int PART_BYTES_MAX = 512 << 10;

  /**
   * The longest time for the request that gives up a refused batch. It is sent under locks, beside {@code underLocks}
   * of at most 30 s, and the engine treats an update as undecided after a minute.
   */
  private static final Duration WITHDRAW_MAX = Duration.ofSeconds(20);

  /** Why not all refs could be staged. */
  sealed interface Met {
    /** etcd has another value for a ref. */
    record Other(GlobalRef ref, Optional<KeyValue> entry, Optional<String> value) implements Met {}

    /** The batch can no longer be decided, or could not be staged in time. */
    record End(String why) implements Met {}
  }

  private final GlobalRefs refs;
  private final String project;
  private final Decider decider;
  private final List<List<GlobalRef>> parts;
  private Generation generation;
  private int staged;
  private String inTheWay = "etcd has other values each time";

  /**
   * The revision that created the deciding key. It tells this key from one that a delayed copy of the first part
   * creates.
   */
  private long token;

  StagedBatch(GlobalRefs refs, String project, Generation generation, Decider decider, List<GlobalRef> changes) {
    this.refs = refs;
    this.project = project;
    this.generation = generation;
    this.decider = decider;
    parts = divide(refs.etcd().settings(), changes);
    refs.stages().begin(decider);
  }

  /** Upper bound of the bytes that a ref takes in the request that stages it. */
  private static long bytes(Settings settings, GlobalRef ref) {
    return 3L * (settings.prefix().length() + 32 + ref.name().getBytes(StandardCharsets.UTF_8).length) + 400;
  }

  /** Upper bound of the bytes of the comparisons and puts in a request that changes all refs at once. */
  static long bytes(Settings settings, List<GlobalRef> changes) {
    return changes.stream()
        .mapToLong(
            ref ->
                2L
                        * (settings.prefix().length()
                            + 32
                            + ref.name().getBytes(StandardCharsets.UTF_8).length)
                    + 170)
        .sum();
  }

  private static List<List<GlobalRef>> divide(Settings settings, List<GlobalRef> changes) {
    List<List<GlobalRef>> parts = new ArrayList<>();
    long bytes = 0;
    for (GlobalRef ref : changes) {
      long more = bytes(settings, ref);
      boolean isFull =
          parts.isEmpty()
              || parts.getLast().size() == settings.txnOps() - OPS_BESIDES_REFS
              || bytes + more > PART_BYTES_MAX;
      if (isFull) {
        parts.add(new ArrayList<>());
        bytes = 0;
      }
      parts.getLast().add(ref);
      bytes += more;
    }
    return parts;
  }

  /** Puts the stages that are missing. Returns why not all could be put, or nothing if all were. */
  Optional<Met> stage(Slot slot, Deadline deadline) throws GlobalRefException {
    while (staged < parts.size()) {
      Optional<Met> met = stagePart(staged, slot, deadline);
      if (met.isPresent()) {
        return met;
      }
      staged++;
    }
    return Optional.empty();
  }

  private Optional<Met> stagePart(int part, Slot slot, Deadline deadline) throws GlobalRefException {
    List<GlobalRef> some = parts.get(part);
    List<Cmp> compares = new ArrayList<>();
    List<Op> stages = new ArrayList<>();
    // The usual case first: etcd has the values that the disk has.
    for (GlobalRef ref : some) {
      compares.add(ref.oldId() == null ? Etcd.isAbsent(key(ref)) : Etcd.is(key(ref), ref.oldId()));
      stages.add(put(ref, Optional.ofNullable(ref.oldId())));
    }
    while (true) {
      if (!compares.isEmpty()) {
        TxnResponse answer =
            refs.etcd()
                .commitAgain(
                    with(compares, turn(part, slot)), withKeys(part, stages), List.of(), deadline);
        if (answer.isSucceeded()) {
          token = part == 0 ? answer.getHeader().getRevision() : token;
          return Optional.empty();
        }
      }
      List<GetResponse> reads = refs.etcd().commitAgain(List.of(), reads(some), List.of(), deadline).getGetResponses();
      Optional<KeyValue> now = Etcd.first(reads.get(1));
      Optional<Decider.Entry> entry = now.isPresent() ? Optional.of(Decider.Entry.of(now.get())) : Optional.empty();
      if (isStaged(entry, reads.subList(2, reads.size()))) {
        // The part was staged by a request whose response was lost.
        token = part == 0 ? entry.get().created() : token;
        return Optional.empty();
      }
      Optional<Met> ends = ends(part, entry, reads.getFirst());
      if (ends.isPresent()) {
        return ends;
      }
      compares.clear();
      stages.clear();
      Optional<Met> met = exact(some, reads.subList(2, reads.size()), compares, stages, deadline);
      if (met.isPresent()) {
        return met;
      }
      if (!deadline.pause()) {
        return Optional.of(new Met.End(inTheWay));
      }
    }
  }

  /**
   * The comparisons of a part besides those of its refs: that the project has not changed; for the first part also that
   * there is no deciding key and that the slot's mark is not closed; for the others also that the deciding key is the
   * one of this batch and open.
   */
  private List<Cmp> turn(int part, Slot slot) {
    ByteSequence key = refs.keys().decider(decider.text());
    Cmp same = refs.projects().is(project, generation);
    return part == 0
        ? List.of(same, Etcd.isAbsent(key), Etcd.is(slot.key(), slot.mark().text()))
        : List.of(same, Etcd.isCreatedAt(key, token), Etcd.is(key, text(State.OPEN)));
  }

  private String text(State state) {
    return Decider.text(state, generation);
  }

  private ByteSequence key(GlobalRef ref) {
    return refs.keys().value(generation, ref.name());
  }

  private Op put(GlobalRef ref, Optional<String> old) {
    return Op.put(key(ref), new Stage(old, AllowedValues.next(ref), decider).value(), PutOption.DEFAULT);
  }

  private Op put(State state) {
    return Op.put(refs.keys().decider(decider.text()), Keys.bytes(text(state)), PutOption.DEFAULT);
  }

  private static <T> List<T> with(List<T> some, List<T> more) {
    List<T> all = new ArrayList<>(some);
    all.addAll(more);
    return all;
  }

  /**
   * Adds to the stages the list of the refs in this part, by which a node clears the part later, and in the first part
   * the deciding key.
   */
  private List<Op> withKeys(int part, List<Op> stages) {
    String names = parts.get(part).stream().map(GlobalRef::name).collect(Collectors.joining("\n"));
    List<Op> keys =
        new ArrayList<>(
            List.of(
                Op.put(
                    refs.keys().part(decider.text(), part), Keys.bytes(names), PutOption.DEFAULT)));
    if (part == 0) {
      keys.add(put(State.OPEN));
    }
    return with(stages, keys);
  }

  private List<Op> reads(List<GlobalRef> some) {
    List<Op> reads =
        new ArrayList<>(
            List.of(
                Etcd.get(refs.keys().project(project)),
                Etcd.get(refs.keys().decider(decider.text()))));
    some.forEach(ref -> reads.add(Etcd.get(key(ref))));
    return reads;
  }

  private boolean isStaged(Optional<Decider.Entry> entry, List<GetResponse> values) throws GlobalRefException {
    if (entry.isEmpty() || entry.get().state() != State.OPEN) {
      return false;
    }
    for (GetResponse value : values) {
      Optional<KeyValue> there = Etcd.first(value);
      if (there.isEmpty() || !Stage.of(there.get()).map(Stage::decider).equals(Optional.of(decider))) {
        return false;
      }
    }
    return true;
  }

  /** Returns why this batch can no longer be decided, or nothing if it can. */
  private Optional<Met> ends(int part, Optional<Decider.Entry> entry, GetResponse projectNow)
      throws GlobalRefException {
    Optional<Generation> now = refs.projects().remember(project, Etcd.text(projectNow));
    if (!now.map(Generation::id).equals(Optional.of(generation.id()))) {
      return Optional.of(new Met.End(project + " was removed while its refs were updated. Try again"));
    }
    boolean isOpen =
        part == 0
            ? entry.isEmpty()
            : entry.isPresent()
                && entry.get().state() == State.OPEN
                && entry.get().created() == token;
    if (!isOpen) {
      return Optional.of(
          new Met.End(
              "it took longer than refdb.global.underLocks of another node, which has given it up. Try again"));
    }
    if (part > 0 && !now.get().equals(generation)) {
      return Optional.of(new Met.End(project + " was imported while its refs were updated. Try again"));
    }
    generation = now.get();
    return Optional.empty();
  }

  /**
   * Checks whether etcd's values allow this part, and fills in comparisons of exactly those. If a batch that is not
   * decided has staged a ref, or the stage has changed, the comparisons stay empty, so that the values are read again.
   */
  private Optional<Met> exact(
      List<GlobalRef> some,
      List<GetResponse> values,
      List<Cmp> compares,
      List<Op> stages,
      Deadline deadline)
      throws GlobalRefException {
    for (int i = 0; i < some.size(); i++) {
      GlobalRef ref = some.get(i);
      Optional<KeyValue> entry = Etcd.first(values.get(i));
      Optional<String> value = Optional.empty();
      if (entry.isPresent()) {
        Optional<Effective> effective = refs.stages().look(entry.get(), deadline);
        if (effective.isPresent() && effective.get().open().isPresent()) {
          Decider open = effective.get().open().get();
          inTheWay = ref.name() + ": " + Stages.isIn(open);
          refs.stages().met(open, deadline);
        }
        if (effective.isEmpty() || effective.get().open().isPresent()) {
          compares.clear();
          stages.clear();
          return Optional.empty();
        }
        value = effective.get().value();
      }
      if (!AllowedValues.catchesUp(ref, value) && !AllowedValues.isAsOnDisk(ref, value, generation.imported())) {
        return Optional.of(new Met.Other(ref, entry, value));
      }
      compares.add(
          entry.isEmpty()
              ? Etcd.isAbsent(key(ref))
              : Etcd.isChangedAt(key(ref), entry.get().getModRevision()));
      stages.add(put(ref, value));
    }
    return Optional.empty();
  }

  /** Decides all stages at once. */
  Result decide(Slot slot, Deadline deadline) throws GlobalRefException {
    if (staged < parts.size()) {
      throw new IllegalStateException("not all refs have their stage");
    }
    ByteSequence key = refs.keys().decider(decider.text());
    List<Cmp> compares =
        List.of(refs.projects().is(project, generation), Etcd.is(key, text(State.OPEN)), Etcd.isCreatedAt(key, token));
    return slot.once(List.of(new Branch(compares, List.of(put(State.DONE)))), List.of(), deadline);
  }

  /**
   * Makes sure that no delayed request of a refused batch takes effect. If etcd does not answer within {@link
   * #WITHDRAW_MAX}, any node closes the batch later, see {@link Stages}.
   */
  void withdraw(Slot slot) {
    Duration request = refs.etcd().settings().requestTimeout();
    Duration time = request.compareTo(WITHDRAW_MAX) < 0 ? request : WITHDRAW_MAX;
    try {
      slot.withdraw(List.of(put(State.VOID)), Deadline.in(time, time));
    } catch (GlobalRefException e) {
      log.atInfo().withCause(e).log("stages of a batch of %s are cleared later", project);
    }
  }

  /** Records that this process no longer runs the batch. */
  void end() {
    refs.stages().end(decider);
  }
}

package org.refdb.gerrit.global.transaction;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.flogger.FluentLogger;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.op.RangeIsAbsent;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.OptionsUtil;
import io.etcd.jetcd.options.PutOption;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Pages;
import org.refdb.gerrit.global.transaction.Decider.State;

/**
 * Resolves the stages of batches that are running or whose node died, and replaces them by values. A batch of another
 * node that has been open for longer than {@code refdb.global.underLocks} of this node, and one that this node no
 * longer runs, is closed as void by a compare-and-put, so that nobody has to guess its outcome.
 */
public final class Stages implements AutoCloseable {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();
  private static final int DECIDERS_AT_ONCE = 100;

  /** The value of a ref, if any, and the open batch that may change it at any moment. */
  public record Effective(Optional<String> value, Optional<Decider> open) {}

  /** Identifies one incarnation of a deciding key. */
  private record Met(Decider decider, long created) {}

  private final Etcd etcd;
  private final Keys keys;
  private final NodeName node;

  /** Batches that are running in this process. */
  private final Set<Decider> live = ConcurrentHashMap.newKeySet();

  /** When batches that do not run in this process were first seen here, in {@link System#nanoTime}, until cleared. */
  private final Map<Met, Long> since = new ConcurrentHashMap<>();

  private final ScheduledExecutorService background =
      Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().daemon().name("refdb-global-stages").factory());

  Stages(Etcd etcd, Keys keys, NodeName node) {
    this.etcd = etcd;
    this.keys = keys;
    this.node = node;
    long millis = etcd.settings().underLocks().toMillis();
    background.scheduleWithFixedDelay(this::sweepOrLog, 0, millis, TimeUnit.MILLISECONDS);
  }

  /** Registers a batch of this process. */
  void begin(Decider decider) {
    live.add(decider);
  }

  /**
   * Unregisters a batch of this process, whether or not its outcome is known: from now on it may be closed and cleared.
   */
  void end(Decider decider) {
    live.remove(decider);
    try {
      background.execute(this::sweepOrLog);
    } catch (RejectedExecutionException e) {
      log.atFine().log("this node stops: others clear its stages");
    }
  }

  /** Returns the value of a ref by its entry; empty if the entry has to be read again, because its batch is gone. */
  public Optional<Effective> look(KeyValue entry, Deadline deadline) throws GlobalRefException {
    Optional<Stage> stage = Stage.of(entry);
    if (stage.isEmpty()) {
      return Optional.of(new Effective(Optional.of(Etcd.text(entry)), Optional.empty()));
    }
    Decider decider = stage.get().decider();
    return find(decider, deadline)
        .map(
            found ->
                switch (found.state()) {
                  case OPEN -> new Effective(stage.get().old(), Optional.of(decider));
                  case VOID -> new Effective(stage.get().old(), Optional.empty());
                  case DONE -> new Effective(Optional.of(stage.get().next()), Optional.empty());
                });
  }

  /** Returns the value of a ref by its entry, which is read again if it belongs to a batch that is gone. */
  public Optional<String> value(KeyValue entry, Deadline deadline) throws GlobalRefException {
    Optional<KeyValue> now = Optional.of(entry);
    while (now.isPresent()) {
      Optional<Effective> found = look(now.get(), deadline);
      if (found.isPresent()) {
        return found.get().value();
      }
      awaitEnd(entry.getKey().toString(UTF_8), deadline);
      now = Etcd.first(etcd.read(entry.getKey(), GetOption.DEFAULT, deadline));
    }
    return Optional.empty();
  }

  /**
   * Pauses before a ref is read again whose entry belongs to a batch that is gone. The batch has ended since the ref was
   * read, unless somebody removed its key, in which case this fails at the deadline.
   */
  public static void awaitEnd(String ref, Deadline deadline) throws GlobalRefException {
    if (!deadline.pause()) {
      throw new GlobalRefException("etcd lacks the batch that updates " + ref, null);
    }
  }

  private Optional<Decider.Entry> find(Decider decider, Deadline deadline) throws GlobalRefException {
    Optional<KeyValue> found = Etcd.first(etcd.read(keys.decider(decider.text()), GetOption.DEFAULT, deadline));
    return found.isPresent() ? Optional.of(Decider.Entry.of(found.get())) : Optional.empty();
  }

  /** Closes a batch as void unless it is decided or gone. */
  void close(Decider decider, Deadline deadline) throws GlobalRefException {
    Optional<Decider.Entry> found = find(decider, deadline);
    if (found.isPresent() && found.get().state() == State.OPEN) {
      close(decider, found.get(), deadline);
    }
  }

  private void close(Decider decider, Decider.Entry open, Deadline deadline) throws GlobalRefException {
    ByteSequence key = keys.decider(decider.text());
    Op put = Op.put(key, Keys.bytes(Decider.text(State.VOID, open.generation())), PutOption.DEFAULT);
    etcd.commitAgain(
        List.of(Etcd.is(key, Decider.text(State.OPEN, open.generation())), Etcd.isCreatedAt(key, open.created())),
        List.of(put),
        List.of(),
        deadline);
  }

  /** Records that an open batch blocks a ref, and closes the batch if it has been open for too long. */
  void met(Decider decider, Deadline deadline) throws GlobalRefException {
    Optional<Decider.Entry> found = find(decider, deadline);
    if (found.isPresent() && found.get().state() == State.OPEN && isOld(decider, found.get())) {
      log.atInfo().log("a batch of node %s was undecided for too long: it is void now", decider.node());
      close(decider, found.get(), deadline);
    }
  }

  private boolean isOld(Decider decider, Decider.Entry entry) {
    if (live.contains(decider)) {
      return false;
    }
    // An earlier process of this node is dead, and so is a batch that this process no longer runs.
    long first = since.computeIfAbsent(new Met(decider, entry.created()), met -> System.nanoTime());
    return decider.node().equals(node.name()) || System.nanoTime() - first >= etcd.settings().underLocks().toNanos();
  }

  /**
   * Replaces the stage of one ref by its value once the batch is decided, unless the stage is gone by then.
   *
   * @throws GlobalRefException if the batch stays undecided until the deadline, if etcd refuses or does not answer, or
   *     if the stage or its deciding key is not in refdb's format
   */
  public void clear(KeyValue staged, Deadline deadline) throws GlobalRefException {
    while (true) {
      Optional<Effective> found = look(staged, deadline);
      if (found.isEmpty()) {
        return;
      }
      if (found.get().open().isEmpty()) {
        etcd.commitAgain(
            List.of(Etcd.isChangedAt(staged.getKey(), staged.getModRevision())),
            List.of(to(staged.getKey(), found.get().value())),
            List.of(),
            deadline);
        return;
      }
      met(found.get().open().get(), deadline);
      if (!deadline.pause()) {
        throw new GlobalRefException(isIn(found.get().open().get()) + ". Nothing was changed", null);
      }
    }
  }

  /** Describes to people why a ref cannot be changed. */
  static String isIn(Decider open) {
    return "it is in a batch of node " + open.node() + " that is not decided yet";
  }

  private static Op to(ByteSequence key, Optional<String> value) {
    return value.isPresent()
        ? Op.put(key, Keys.bytes(value.get()), PutOption.DEFAULT)
        : Op.delete(key, DeleteOption.DEFAULT);
  }

  private void sweepOrLog() {
    try {
      sweep();
    } catch (GlobalRefException e) {
      log.atFine().withCause(e).log("staged batches are cleared later");
    } catch (RuntimeException | Error e) {
      log.atSevere().withCause(e).log("staged batches are not cleared");
    }
  }

  /**
   * Closes open batches, and clears decided ones: those of this node that nobody runs any more at once, and those of
   * other nodes after a while, in which they are left to these nodes.
   */
  private void sweep() throws GlobalRefException {
    Pages all = new Pages(etcd, keys.allDeciders(), DECIDERS_AT_ONCE);
    Set<Met> there = ConcurrentHashMap.newKeySet();
    for (Optional<KeyValue> next = all.next(); next.isPresent(); next = all.next()) {
      Optional<Decider> decider = Decider.parse(Keys.rest(next.get().getKey(), keys.allDeciders()));
      if (decider.isPresent()) {
        there.add(new Met(decider.get(), next.get().getCreateRevision()));
        sweepOrLog(decider.get(), next.get());
      }
    }
    since.keySet().retainAll(there);
  }

  /** Closes and clears a batch if it is due; only logs if etcd refuses that, or the batch is not in refdb's format. */
  private void sweepOrLog(Decider decider, KeyValue deciding) throws GlobalRefException {
    try {
      sweep(decider, Decider.Entry.of(deciding));
    } catch (GlobalRefException.NoAnswer e) {
      throw e; // the other batches would get no answer either
    } catch (GlobalRefException e) {
      log.atWarning().atMostEvery(1, TimeUnit.HOURS).log(
          "batch %s stays in etcd, and its refs cannot be changed: %s", decider.text(), e.getMessage());
    }
  }

  private void sweep(Decider decider, Decider.Entry entry) throws GlobalRefException {
    if (!isOld(decider, entry)) {
      return;
    }
    if (entry.state() == State.OPEN) {
      close(decider, entry, Deadline.of(etcd.settings()));
    }
    Optional<Decider.Entry> closed = find(decider, Deadline.of(etcd.settings()));
    if (closed.isPresent() && closed.get().state() != State.OPEN) {
      clear(decider, closed.get());
    }
  }

  /** Clears all parts of a decided batch, and at last the deciding key, provided that no part is left. */
  private void clear(Decider decider, Decider.Entry closed) throws GlobalRefException {
    ByteSequence prefix = keys.parts(decider.text());
    Pages parts = new Pages(etcd, prefix, 1);
    for (Optional<KeyValue> part = parts.next(); part.isPresent(); part = parts.next()) {
      clearPart(decider, closed, part.get(), Deadline.of(etcd.settings()));
    }
    ByteSequence key = keys.decider(decider.text());
    etcd.commitAgain(
        List.of(
            new RangeIsAbsent(prefix, OptionsUtil.prefixEndOf(prefix)), Etcd.isCreatedAt(key, closed.created()),
            Etcd.is(key, Decider.text(closed.state(), closed.generation()))),
        List.of(Op.delete(key, DeleteOption.DEFAULT)),
        List.of(),
        Deadline.of(etcd.settings()));
  }

  private void clearPart(Decider decider, Decider.Entry closed, KeyValue part, Deadline deadline)
      throws GlobalRefException {
    List<Op> reads = new ArrayList<>();
    for (String ref : part.getValue().toString(StandardCharsets.UTF_8).split("\n")) {
      reads.add(Etcd.get(keys.value(closed.generation(), ref)));
    }
    while (true) {
      List<Cmp> compares = new ArrayList<>();
      List<Op> changes = new ArrayList<>(List.of(Op.delete(part.getKey(), DeleteOption.DEFAULT)));
      for (GetResponse read : etcd.commitAgain(List.of(), reads, List.of(), deadline).getGetResponses()) {
        Optional<KeyValue> entry = Etcd.first(read);
        Optional<Stage> stage = entry.isPresent() ? Stage.of(entry.get()) : Optional.empty();
        // If there is another stage or none, no stage of this batch can appear any more, because the batch is closed.
        if (stage.isPresent() && stage.get().decider().equals(decider)) {
          compares.add(Etcd.isChangedAt(entry.get().getKey(), entry.get().getModRevision()));
          changes.add(
              to(
                  entry.get().getKey(),
                  closed.state() == State.DONE
                      ? Optional.of(stage.get().next())
                      : stage.get().old()));
        }
      }
      if (etcd.commitAgain(compares, changes, List.of(), deadline).isSucceeded()) {
        return;
      }
      if (!deadline.pause()) {
        throw new GlobalRefException("refs of a staged batch move too often", null);
      }
    }
  }

  @Override
  public void close() {
    background.shutdownNow();
  }
}

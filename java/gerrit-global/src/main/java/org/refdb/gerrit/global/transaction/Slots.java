package org.refdb.gerrit.global.transaction;

import com.google.common.flogger.FluentLogger;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongConsumer;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Session;
import org.refdb.gerrit.global.transaction.Mark.Outcome;
import org.refdb.gerrit.global.transaction.Slot.Branch;
import org.refdb.gerrit.global.transaction.Slot.Result;

/**
 * The slots of this node. Each runs one transaction at a time, whose outcome is in the slot's {@link Mark} in etcd;
 * further transactions wait for a free slot.
 */
public final class Slots {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  private final Etcd etcd;
  private final Keys keys;
  private final NodeName node;
  private final Session lease;
  private final Runnable counted;

  /** Free slots. The one returned last is taken first, so that few marks are in use. */
  private final Deque<Slot> free = new ArrayDeque<>();

  /**
   * Slots whose last transaction has an unknown outcome, with a callback that receives the transaction's revision if it
   * turns out to have been applied.
   */
  private final Map<Slot, LongConsumer> unresolved = new LinkedHashMap<>();

  private boolean claimed;

  /**
   * Creates the slots; {@code counted} is called each time that a slot with an unknown outcome is given back.
   *
   * @param lease the lease of a program's marks, which no later process takes over. Those of a site have none, so that
   *     the site goes on after an outage of any length
   */
  Slots(Etcd etcd, Keys keys, NodeName node, Session lease, Runnable counted) {
    this.etcd = etcd;
    this.keys = keys;
    this.node = node;
    this.lease = lease;
    this.counted = counted;
  }

  /** Runs a transaction and returns its outcome. */
  Result run(List<Branch> branches, List<Op> reads, Deadline deadline) throws GlobalRefException {
    return run(branches, reads, deadline, revision -> {});
  }

  /**
   * Runs a transaction. If its outcome is reported as unknown and it was applied after all, {@code late} is given its
   * revision.
   */
  Result run(List<Branch> branches, List<Op> reads, Deadline deadline, LongConsumer late) throws GlobalRefException {
    Slot slot = take(deadline);
    try {
      return slot.run(branches, reads, deadline);
    } finally {
      giveBack(slot, late);
    }
  }

  /** Takes a free slot, and waits for one until the deadline. The caller must give it back with {@link #giveBack}. */
  synchronized Slot take(Deadline deadline) throws GlobalRefException {
    if (!claimed) {
      claim(deadline);
    }
    while (free.isEmpty()) {
      long millis = deadline.millisLeft();
      if (millis == 0) {
        throw new GlobalRefException(
            "all " + etcd.settings().slots() + " slots of this node are in use, " + unresolved.size()
                + " of them with an update that etcd has not answered yet. Nothing was changed",
            null);
      }
      try {
        wait(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new GlobalRefException("interrupted while this node's other updates were waited for", e);
      }
    }
    return free.pop();
  }

  /** Takes a slot back, whether or not the outcome of its last transaction is known. */
  void giveBack(Slot slot) {
    giveBack(slot, revision -> {});
  }

  private synchronized void giveBack(Slot slot, LongConsumer late) {
    if (slot.isUnresolved()) {
      unresolved.put(slot, late);
      counted.run();
    } else {
      free.push(slot);
      notify();
    }
  }

  /**
   * Tries once to determine the outcome of each transaction whose response was lost. Those that remain unknown stay
   * counted.
   */
  public void resolve() {
    Map<Slot, LongConsumer> all;
    synchronized (this) {
      all = new LinkedHashMap<>(unresolved);
    }
    for (Map.Entry<Slot, LongConsumer> one : all.entrySet()) {
      Slot slot = one.getKey();
      try {
        Result result = slot.close(Deadline.ofOneRequest(etcd.settings()));
        log.atInfo().log("an update that was reported as unknown is known now: %s", result.outcome());
        resolved(slot);
        if (result.isDone()) {
          one.getValue().accept(result.revision());
        }
      } catch (GlobalRefException e) {
        log.atFine().withCause(e).log("an update is still unknown");
      }
    }
  }

  private synchronized void resolved(Slot slot) {
    if (slot.isUnresolved() || unresolved.remove(slot) == null) {
      throw new IllegalStateException("a slot is given back that is not closed, or was given back before");
    }
    giveBack(slot);
  }

  public synchronized int unresolvedCount() {
    return unresolved.size();
  }

  /**
   * Takes over all marks of this node, including those of slots that only an earlier process had, so that no
   * transaction that an earlier process of this node ran can be applied any more.
   */
  private void claim(Deadline deadline) throws GlobalRefException {
    Mark fresh = new Mark(node.start(), 0, Outcome.DONE);
    long id = node.isOfProgram() ? lease.lease(deadline) : 0;
    PutOption kept = PutOption.builder().withLeaseId(id).build();
    while (!claimed) {
      Map<ByteSequence, KeyValue> before = new HashMap<>();
      GetOption all = GetOption.builder().isPrefix(true).build();
      etcd.read(keys.marks(node.name()), all, deadline).getKvs().forEach(mark -> before.put(mark.getKey(), mark));
      List<Cmp> compares = new ArrayList<>();
      List<Op> puts = new ArrayList<>();
      boolean ours = true;
      Set<ByteSequence> marks = new LinkedHashSet<>(before.keySet());
      for (int i = 0; i < etcd.settings().slots(); i++) {
        marks.add(keys.mark(node.name(), i));
      }
      for (ByteSequence key : marks) {
        KeyValue old = before.get(key);
        ours &= old != null && Etcd.text(old).equals(fresh.text());
        compares.add(old == null ? Etcd.isAbsent(key) : Etcd.isChangedAt(key, old.getModRevision()));
        puts.add(Op.put(key, Keys.bytes(fresh.text()), kept));
      }
      puts.add(Op.put(keys.node(node.name()), Keys.bytes(node.text()), kept));
      // If the response to a claim is lost, the next round finds the marks of this process, and ends.
      claimed = ours || etcd.commitAgain(compares, puts, List.of(), deadline).isSucceeded();
    }
    for (int i = etcd.settings().slots() - 1; i >= 0; i--) {
      free.push(new Slot(etcd, keys.mark(node.name(), i), kept, fresh));
    }
  }
}

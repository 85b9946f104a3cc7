package org.refdb.gerrit.global.transaction;

import com.google.common.flogger.FluentLogger;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.PutOption;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.GlobalRefException.NoAnswer;
import org.refdb.gerrit.global.etcd.GlobalRefException.Refused;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Session;
import org.refdb.gerrit.global.transaction.Slot.Branch;
import org.refdb.gerrit.global.transaction.Slot.Result;

/**
 * The locks that this process holds or waits for. Threads of this process exclude each other without etcd; the one that
 * is next then takes the lock in etcd.
 */
public final class Locks {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  /** Identifies a ref. */
  public record Name(String project, String ref) {}

  /**
   * A held lock.
   *
   * @param token the revision that created the key, which is unique to this lock and fences updates under it
   */
  record Held(ByteSequence key, long token) {}

  private final Etcd etcd;
  private final Keys keys;
  private final NodeName node;
  private final Session session;
  private final Slots slots;
  private final Projects projects;

  /** Refs that a thread of this process has locked, and refs that one is locking, which have an empty value. */
  private final Map<Name, Optional<Held>> table = new HashMap<>();

  /** Locks whose release etcd has not confirmed. */
  private final Set<Held> releasing = new HashSet<>();

  Locks(Etcd etcd, Keys keys, NodeName node, Session session, Slots slots, Projects projects) {
    this.etcd = etcd;
    this.keys = keys;
    this.node = node;
    this.session = session;
    this.slots = slots;
    this.projects = projects;
  }

  /**
   * Returns the lock of a ref if a thread of this process holds it, else empty. {@link GlobalRefs#compareAndPut}
   * changes the ref in etcd only while that lock is held.
   */
  public synchronized Optional<Held> held(Name name) {
    return table.getOrDefault(name, Optional.empty());
  }

  /** Returns the number of refs whose locks this process holds or waits for. */
  public synchronized int count() {
    return table.size();
  }

  /** Waits for the lock of a ref. Closing the result releases it; closing it again has no effect. */
  AutoCloseable lock(Name name) throws GlobalRefException {
    Deadline deadline = Deadline.in(etcd.settings().lockTimeout(), etcd.settings().requestTimeout());
    reserve(name, deadline);
    Held held = null;
    try {
      held = acquire(name, deadline);
    } finally {
      set(name, held);
    }
    Held got = held;
    AtomicBoolean open = new AtomicBoolean(true);
    return () -> {
      if (open.getAndSet(false)) {
        try {
          release(got);
        } finally {
          set(name, null); // else no thread of this process could lock the ref again
        }
      }
    };
  }

  private synchronized void reserve(Name name, Deadline deadline) throws GlobalRefException {
    while (table.containsKey(name)) {
      long millis = deadline.millisLeft();
      if (millis == 0) {
        throw new GlobalRefException("another thread of this Gerrit holds it", null);
      }
      try {
        wait(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new GlobalRefException("interrupted while it was waited for", e);
      }
    }
    table.put(name, Optional.empty());
  }

  private synchronized void set(Name name, Held held) {
    if (held == null) {
      table.remove(name);
      notifyAll();
    } else {
      table.put(name, Optional.of(held));
    }
  }

  /**
   * Requests the lock from etcd until it is granted. The deadline bounds the waiting only: each request has the usual
   * time.
   */
  private Held acquire(Name name, Deadline waiting) throws GlobalRefException {
    while (true) {
      Deadline deadline = Deadline.of(etcd.settings());
      Generation generation = projects.findOrBegin(name.project(), deadline);
      ByteSequence key = keys.lock(generation, name.ref());
      String value = node.name() + ' ' + node.text() + ' ' + Generation.random().id();
      long lease = session.lease(deadline);
      Op put = Op.put(key, Keys.bytes(value), PutOption.builder().withLeaseId(lease).build());
      Branch branch = new Branch(List.of(projects.is(name.project(), generation), Etcd.isAbsent(key)), List.of(put));
      String holder = "";
      try {
        List<Op> reads = List.of(Etcd.get(keys.project(name.project())), Etcd.get(key));
        // A lock that is granted after its request was given up would stay as long as this node lives, so it is
        // released.
        Result result = slots.run(List.of(branch), reads, deadline, revision -> releaseLater(new Held(key, revision)));
        if (result.isDone()) {
          return new Held(key, result.revision());
        }
        if (!result.reads().isEmpty()) {
          projects.remember(name.project(), Etcd.text(result.reads().get(0)));
          holder = Etcd.text(result.reads().get(1)).orElse("");
        }
      } catch (Refused e) {
        if (!e.leaseIsGone()) {
          throw e;
        }
        session.lost(lease);
      }
      if (!waiting.pause()) {
        throw new GlobalRefException(
            "it was held for " + etcd.settings().lockTimeout().toMillis() + " ms by "
                + (holder.isEmpty() ? "an unknown holder" : holder),
            null);
      }
    }
  }

  private void release(Held held) {
    releaseLater(held); // first, so that it is tried again whatever happens now
    if (tryRelease(held)) {
      released(held);
    }
  }

  private synchronized void releaseLater(Held held) {
    releasing.add(held);
  }

  private synchronized void released(Held held) {
    releasing.remove(held);
  }

  private boolean tryRelease(Held held) {
    try {
      etcd.commit(
          List.of(Etcd.isCreatedAt(held.key(), held.token())),
          List.of(Op.delete(held.key(), DeleteOption.DEFAULT)),
          List.of(),
          Deadline.ofOneRequest(etcd.settings()));
      return true;
    } catch (NoAnswer e) {
      log.atFine().withCause(e).log("a lock is released later");
      return false;
    } catch (GlobalRefException e) {
      // Whatever etcd refused now, for example because of too many requests, it may accept later.
      log.atWarning().atMostEvery(1, TimeUnit.MINUTES).withCause(e).log("a lock is not released yet");
      return false;
    }
  }

  /** Tries again to release the locks whose release etcd has not confirmed. */
  void releaseRest() {
    List<Held> rest;
    synchronized (this) {
      rest = List.copyOf(releasing);
    }
    for (Held held : rest) {
      if (tryRelease(held)) {
        released(held);
      }
    }
  }
}

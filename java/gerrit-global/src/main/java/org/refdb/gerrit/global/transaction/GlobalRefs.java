package org.refdb.gerrit.global.transaction;

import com.google.common.flogger.FluentLogger;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.refdb.engine.Planted;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Session;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.Locks.Held;
import org.refdb.gerrit.global.transaction.Slot.Branch;
import org.refdb.gerrit.global.transaction.Slot.Result;
import org.refdb.gerrit.global.transaction.Stages.Effective;

/** The refs of all nodes: etcd holds the authoritative value of each ref, as text. */
public final class GlobalRefs implements AutoCloseable {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  /** Interval between two attempts to learn outcomes whose response was lost, and to release locks that are left. */
  private static final long RESOLVE_MILLIS = 500;

  /**
   * How long the marks of a program stay in etcd after it was killed, and for how long etcd may be out of reach before a
   * program can change nothing any more.
   */
  private static final Duration PROGRAM_LEASE = Duration.ofHours(1);

  private static final int READ_AT_ONCE = 100;
  private static final Optional<Effective> NOTHING = Optional.of(new Effective(Optional.empty(), Optional.empty()));

  /**
   * The value in etcd, if any.
   *
   * @param imported whether the lack of a value means that the ref does not exist
   * @param revision where the value was put, for {@link Expected.PutAt}: 0 without a value, and {@link #STAGED} for one
   *     that a batch of several transactions has put
   */
  public record Found(Optional<String> value, boolean imported, long revision) {
    /** No value was put at this revision, so a comparison with it fails. */
    static final long STAGED = -1;
  }

  /** What the value must be for a change to be applied. */
  public sealed interface Expected {
    /** This value, or none if the project is not imported. */
    record Is(String value) implements Expected {}

    /** No value, or that of a deleted ref. */
    record Nothing() implements Expected {}

    /** The value put at this revision, with nothing put since; 0 if there never was one. */
    record PutAt(long revision) implements Expected {}

    /** Any value, or none. */
    record Anything() implements Expected {}
  }

  private final Settings settings;
  private final NodeName node;
  private final Counts counts = new Counts();
  private final Etcd etcd;
  private final Keys keys;
  private final Slots slots;
  private final Session session;

  /** The lease of the marks, which only those of a program have. */
  private final Session marks;
  private final Projects projects;
  private final Locks locks;
  private final Stages stages;
  private final ScheduledExecutorService background = thread("refdb-global");

  /** Renews the leases on a thread of its own, so that no slow task lets one expire. */
  private final ScheduledExecutorService renewing = thread("refdb-global-lease");

  public GlobalRefs(Settings settings, NodeName node) {
    this.settings = settings;
    this.node = node;
    etcd = new Etcd(settings);
    keys = new Keys(settings.prefix());
    marks = new Session(etcd, PROGRAM_LEASE);
    slots = new Slots(etcd, keys, node, marks, counts.unknown::increment);
    session = new Session(etcd, settings.lease());
    projects = new Projects(etcd, keys);
    locks = new Locks(etcd, keys, node, session, slots, projects);
    stages = new Stages(etcd, keys, node);
    every(renewing, settings.lease().toMillis() / 4, session::renew);
    every(renewing, PROGRAM_LEASE.toMillis() / 60, marks::renew);
    every(background, RESOLVE_MILLIS, slots::resolve);
    every(background, RESOLVE_MILLIS, locks::releaseRest);
    background.execute(this::clearRemoved);
  }

  private static ScheduledExecutorService thread(String name) {
    return Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().daemon().name(name).factory());
  }

  private static void every(ScheduledExecutorService thread, long millis, Runnable task) {
    thread.scheduleWithFixedDelay(
        () -> {
          try {
            task.run();
          } catch (RuntimeException | Error e) { // also an OutOfMemoryError: the lease must be renewed
            log.atSevere().withCause(e).log("the global ref database's background thread goes on");
          }
        },
        millis,
        millis,
        TimeUnit.MILLISECONDS);
  }

  /** The deadline of an operation that begins now. */
  public Deadline deadline() {
    return Deadline.of(settings);
  }

  public Projects projects() {
    return projects;
  }

  public Etcd etcd() {
    return etcd;
  }

  public Keys keys() {
    return keys;
  }

  public Slots slots() {
    return slots;
  }

  public Counts counts() {
    return counts;
  }

  public Locks locks() {
    return locks;
  }

  public Stages stages() {
    return stages;
  }

  public String nodeName() {
    return node.name();
  }

  /** Returns whether this process has the name of a program, because another had that of the node. */
  public boolean isOfProgram() {
    return node.isOfProgram();
  }

  /** Reads the value of a ref. */
  public Found read(String project, String ref) throws GlobalRefException {
    Deadline deadline = deadline();
    Optional<Generation> generation = projects.find(project, deadline);
    while (generation.isPresent()) {
      // Both are read at one revision, so that a removed project does not appear with its old values.
      List<GetResponse> both = readAt(project, generation.get(), List.of(ref), deadline);
      Optional<Generation> now = projects.remember(project, Etcd.text(both.get(0)));
      if (now.map(Generation::id).equals(generation.map(Generation::id))) {
        Optional<KeyValue> entry = Etcd.first(both.get(1));
        Optional<Effective> effective = entry.isPresent() ? stages.look(entry.get(), deadline) : NOTHING;
        if (effective.isPresent()) {
          long revision = entry.map(one -> Stage.is(one) ? Found.STAGED : one.getModRevision()).orElse(0L);
          return new Found(effective.get().value(), now.get().imported(), revision);
        }
        Stages.awaitEnd(ref, deadline);
      }
      generation = now;
    }
    return new Found(Optional.empty(), false, 0);
  }

  private List<GetResponse> readAt(
      String project, Generation generation, List<String> names, Deadline deadline)
      throws GlobalRefException {
    List<Op> reads = new ArrayList<>(List.of(Etcd.get(keys.project(project))));
    names.forEach(name -> reads.add(Etcd.get(keys.value(generation, name))));
    return etcd.commitAgain(List.of(), reads, List.of(), deadline).getGetResponses();
  }

  /** Reads the values of many refs, several per request. The values may be of different revisions. */
  public List<Optional<String>> values(String project, List<String> names) throws GlobalRefException {
    List<Optional<String>> values = new ArrayList<>();
    while (values.size() < names.size()) {
      List<String> some = names.subList(values.size(), Math.min(names.size(), values.size() + READ_AT_ONCE));
      Optional<Generation> generation = projects.look(project, deadline());
      if (generation.isEmpty()) {
        return Collections.nCopies(names.size(), Optional.empty());
      }
      List<GetResponse> all = readAt(project, generation.get(), some, deadline());
      if (!projects
          .remember(project, Etcd.text(all.getFirst()))
          .map(Generation::id)
          .equals(generation.map(Generation::id))) {
        values.clear();
        continue;
      }
      for (GetResponse one : all.subList(1, all.size())) {
        Optional<KeyValue> entry = Etcd.first(one);
        values.add(entry.isPresent() ? stages.value(entry.get(), deadline()) : Optional.empty());
      }
    }
    return values;
  }

  /**
   * Changes the value of a ref.
   *
   * @param catchesUp whether it counts as success that etcd has the new value already
   * @return false if etcd has another value than expected
   */
  public boolean compareAndPut(String project, String ref, Expected expected, String value, boolean catchesUp)
      throws GlobalRefException {
    return compareAndPut(project, ref, expected, value, catchesUp, revision -> {});
  }

  /**
   * Changes the value of a ref. Once the change is known to be applied, {@code put} is given its revision, which may be
   * long after an error was thrown.
   */
  public boolean compareAndPut(
      String project,
      String ref,
      Expected expected,
      String value,
      boolean catchesUp,
      LongConsumer put)
      throws GlobalRefException {
    long start = System.nanoTime();
    try {
      boolean isDone = change(project, ref, expected, value, catchesUp, put);
      (isDone ? counts.updates : counts.refused).increment();
      return isDone;
    } catch (GlobalRefException e) {
      counts.failed.increment();
      throw e;
    } finally {
      counts.updateTook.accept(System.nanoTime() - start);
    }
  }

  private boolean change(
      String project,
      String ref,
      Expected expected,
      String value,
      boolean catchesUp,
      LongConsumer put)
      throws GlobalRefException {
    Deadline deadline = deadline();
    while (true) {
      Generation generation = projects.findOrBegin(project, deadline);
      ByteSequence key = keys.value(generation, ref);
      Optional<Held> lock = locks.held(new Locks.Name(project, ref));
      List<Branch> branches = branches(project, generation, key, lock, expected, value);
      List<Op> reads = new ArrayList<>(List.of(Etcd.get(keys.project(project)), Etcd.get(key)));
      lock.ifPresent(held -> reads.add(Etcd.get(held.key())));
      Result result = slots.run(branches, reads, deadline, put);
      if (result.isDone()) {
        put.accept(result.revision());
        return true;
      }
      Optional<KeyValue> entry = result.reads().isEmpty() ? Optional.empty() : Etcd.first(result.reads().get(1));
      if (entry.isPresent() && Stage.is(entry.get())) {
        stages.clear(entry.get(), deadline);
      } else if (!result.reads().isEmpty()) {
        boolean isPut = expected instanceof Expected.Anything && lock.isEmpty();
        Optional<Boolean> answer = answer(project, ref, generation, lock, result.reads(), value, catchesUp, isPut);
        if (answer.isPresent()) {
          return answer.get();
        }
      }
      // There is no answer yet, for example because the refusal is known from the mark only, or because the project was
      // imported meanwhile.
      if (!deadline.pause()) {
        throw new GlobalRefException("etcd refused the change, and did not say in time why. Nothing was changed", null);
      }
    }
  }

  private List<Branch> branches(
      String project, Generation generation, ByteSequence key, Optional<Held> lock, Expected expected, String value) {
    List<Cmp> common = new ArrayList<>(List.of(projects.is(project, generation)));
    if (!Planted.ON || !Planted.is("global-03")) {
      lock.ifPresent(held -> common.add(Etcd.isCreatedAt(held.key(), held.token())));
    }
    List<Op> put = List.of(Op.put(key, Keys.bytes(value), PutOption.DEFAULT));
    List<Branch> branches = new ArrayList<>();
    switch (expected) {
      case Expected.Is is -> {
        if (Planted.ON && Planted.is("global-04")) {
          branches.add(new Branch(common, put));
        } else {
          branches.add(branch(common, Etcd.is(key, is.value()), put));
        }
        if (!generation.imported()) {
          branches.add(branch(common, Etcd.isAbsent(key), put));
        }
      }
      case Expected.Nothing nothing -> {
        branches.add(branch(common, Etcd.isAbsent(key), put));
        Values.DELETED.forEach(deleted -> branches.add(branch(common, Etcd.is(key, deleted), put)));
      }
      case Expected.PutAt at -> branches.add(branch(common, Etcd.isChangedAt(key, at.revision()), put));
      case Expected.Anything anything -> {
        // A running batch is decided first: stages sort after all values, so the comparison fails for them.
        branches.add(branch(common, new Cmp(key, Cmp.Op.LESS, CmpTarget.value(Stage.FIRST)), put));
        branches.add(branch(common, Etcd.isAbsent(key), put));
      }
    }
    return branches;
  }

  private static Branch branch(List<Cmp> common, Cmp own, List<Op> then) {
    List<Cmp> all = new ArrayList<>(common);
    all.add(own);
    return new Branch(all, then);
  }

  /** Evaluates a refusal; empty if the change is to be retried. */
  private Optional<Boolean> answer(
      String project, String ref, Generation generation, Optional<Held> lock, List<GetResponse> reads, String value,
      boolean catchesUp, boolean isPut)
      throws GlobalRefException {
    Optional<Generation> now = projects.remember(project, Etcd.text(reads.get(0)));
    if (isPut && now.isPresent() && !now.get().equals(generation)) {
      // A put without expectation is meant for the project that has the name now.
      return Optional.empty();
    }
    if (!now.map(Generation::id).equals(Optional.of(generation.id()))) {
      throw new GlobalRefException(
          project + " was removed while " + ref + " was updated. Nothing was changed; try again", null);
    }
    if (lock.isPresent()) {
      boolean holds = Etcd.first(reads.get(2)).filter(one -> one.getCreateRevision() == lock.get().token()).isPresent();
      if (!holds) {
        throw new GlobalRefException(
            "the lock of "
                + ref
                + " in "
                + project
                + " is lost: this node's lease ran out. Nothing was changed; try again",
            null);
      }
    }
    if (!now.get().equals(generation)) {
      return Optional.empty();
    }
    return Optional.of(catchesUp && Etcd.text(reads.get(1)).equals(Optional.of(value)));
  }

  /** Takes the lock of a ref, and waits for at most {@code lockTimeout} while others hold it. */
  public AutoCloseable lock(String project, String ref) throws GlobalRefException {
    try {
      AutoCloseable lock = locks.lock(new Locks.Name(project, ref));
      counts.locks.increment();
      return lock;
    } catch (GlobalRefException e) {
      counts.locksRefused.increment();
      throw e;
    }
  }

  /** Removes a project and clears its values in the background. */
  public void remove(String project) throws GlobalRefException {
    if (projects.remove(project, deadline())) {
      background.execute(this::clearRemoved);
    }
  }

  private void clearRemoved() {
    try {
      projects.clearRemoved(this::deadline);
    } catch (GlobalRefException e) {
      log.atWarning().withCause(e).log("values of removed projects are not cleared yet; it is tried again in a minute");
      background.schedule(this::clearRemoved, 1, TimeUnit.MINUTES);
    } catch (RuntimeException | Error e) {
      log.atSevere().withCause(e).log("values of removed projects stay in etcd until the next removal or start");
    }
  }

  @Override
  public void close() {
    background.shutdownNow();
    renewing.shutdownNow();
    stages.close();
    marks.close();
    session.close();
    etcd.close();
  }
}

package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.refdb.engine.Planted;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.GlobalRefException.NoAnswer;
import org.refdb.gerrit.global.etcd.GlobalRefException.Refused;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.Mark.Outcome;

/**
 * Runs the transactions of one mark, one after the other. Only one thread may use a slot at a time.
 *
 * <p>Each transaction closes the mark with its outcome, so that the outcome of one whose response was lost can be read
 * from the mark, or decided by closing the mark first.
 */
public final class Slot {
  /**
   * Changes with the comparisons they depend on. If a transaction has several branches, the first one whose comparisons
   * hold is applied.
   */
  record Branch(List<Cmp> compares, List<Op> then) {}

  /**
   * Result of a transaction.
   *
   * @param revision the revision of etcd at which the mark was closed
   * @param reads values read if the transaction was refused; empty if the outcome is known from the mark only
   */
  record Result(Outcome outcome, long revision, List<GetResponse> reads) {
    boolean isDone() {
      return outcome == Outcome.DONE;
    }
  }

  private final Etcd etcd;
  private final ByteSequence key;
  private final PutOption kept;
  private Mark mark;

  /** Whether the transaction that follows the mark may still be applied. */
  private boolean unresolved;

  /** Creates a slot; {@code kept} says for how long etcd keeps the mark. */
  Slot(Etcd etcd, ByteSequence key, PutOption kept, Mark mark) {
    this.etcd = etcd;
    this.key = key;
    this.kept = kept;
    this.mark = mark;
  }

  boolean isUnresolved() {
    return unresolved;
  }

  /**
   * Runs a transaction until it is applied or refused, and throws if that does not happen by the deadline. If the
   * outcome is not known then, the slot stays unresolved.
   */
  Result run(List<Branch> branches, List<Op> reads, Deadline deadline) throws GlobalRefException {
    if (unresolved) {
      throw new IllegalStateException("the last transaction of this slot is unresolved");
    }
    while (true) {
      Result result = once(branches, reads, deadline);
      if (result.outcome() != Outcome.VOID) {
        return result;
      }
      if (!deadline.pause()) {
        throw new GlobalRefException(
            "etcd at "
                + String.join(", ", etcd.settings().endpoints())
                + " did not answer in time. Nothing was changed",
            null);
      }
    }
  }

  /** The mark that the next transaction compares. */
  Mark mark() {
    return mark;
  }

  /** Key of the mark in etcd. */
  ByteSequence key() {
    return key;
  }

  /**
   * Runs a transaction once; the outcome may be void. If it is not known by the deadline, the slot stays unresolved.
   */
  Result once(List<Branch> branches, List<Op> reads, Deadline deadline) throws GlobalRefException {
    try {
      unresolved = true;
      return evaluated(send(branches, reads, deadline));
    } catch (NoAnswer e) {
      if (Planted.ON && Planted.is("global-01")) {
        return done(0);
      }
      return close(deadline);
    } catch (Refused e) {
      return afterError(e, deadline);
    }
  }

  /**
   * Sends the branches as one transaction. The first branch is its outermost level, because etcd ignores puts in nested
   * transactions when it checks its quota; the other branches are nested in each other. The branch that is applied
   * closes the mark. With a single branch, the reads stand outside of the nested transaction: etcd compares the
   * longest list of a level, and those of nested transactions in addition, with its limit ({@code --max-txn-ops}), so that
   * outside, reads that are no more than the puts cost nothing.
   */
  private TxnResponse send(List<Branch> branches, List<Op> reads, Deadline deadline) throws GlobalRefException {
    Cmp open = Etcd.is(key, mark.text());
    List<Cmp> compares = new ArrayList<>(branches.getFirst().compares());
    compares.add(open);
    if (branches.size() == 1) {
      List<Op> refused = new ArrayList<>(List.of(Etcd.get(key)));
      refused.addAll(reads);
      refused.add(nested(List.of(open), List.of(closing(Outcome.REFUSED)), List.of()));
      return etcd.commit(compares, with(branches.getFirst().then(), closing(Outcome.DONE)), refused, deadline);
    }
    List<Op> otherwise = with(reads, closing(Outcome.REFUSED));
    for (Branch branch : branches.subList(1, branches.size()).reversed()) {
      otherwise = List.of(nested(branch.compares(), with(branch.then(), closing(Outcome.DONE)), otherwise));
    }
    return etcd.commit(
        compares,
        with(branches.getFirst().then(), closing(Outcome.DONE)),
        List.of(Etcd.get(key), nested(List.of(open), otherwise, List.of())),
        deadline);
  }

  private static Op nested(List<Cmp> compares, List<Op> then, List<Op> otherwise) {
    return Op.txn(compares.toArray(Cmp[]::new), then.toArray(Op[]::new), otherwise.toArray(Op[]::new));
  }

  private static List<Op> with(List<Op> some, Op last) {
    List<Op> all = new ArrayList<>(some);
    all.add(last);
    return all;
  }

  private Op closing(Outcome outcome) {
    return Op.put(key, Keys.bytes(mark.next(outcome).text()), kept);
  }

  private Result evaluated(TxnResponse answer) throws GlobalRefException {
    long revision = answer.getHeader().getRevision();
    if (answer.isSucceeded()) {
      return done(revision);
    }
    TxnResponse inner = answer.getTxnResponses().getFirst();
    if (!inner.isSucceeded()) {
      return told(Etcd.first(answer.getGetResponses().getFirst()));
    }
    while (!inner.getTxnResponses().isEmpty()) {
      inner = inner.getTxnResponses().getFirst();
      if (inner.isSucceeded()) {
        return done(revision);
      }
    }
    closedAs(mark.next(Outcome.REFUSED));
    List<GetResponse> outside = answer.getGetResponses();
    return new Result(
        Outcome.REFUSED, revision, outside.size() > 1 ? outside.subList(1, outside.size()) : inner.getGetResponses());
  }

  private Result done(long revision) {
    closedAs(mark.next(Outcome.DONE));
    return new Result(Outcome.DONE, revision, List.of());
  }

  private void closedAs(Mark closed) {
    mark = closed;
    unresolved = false;
  }

  /**
   * Closes the mark of a transaction that was not answered, so that the transaction can no longer be applied, or learns
   * its outcome if it was applied or refused.
   */
  Result close(Deadline deadline) throws GlobalRefException {
    return close(List.of(), deadline);
  }

  /**
   * Closes the mark although no transaction was sent that would close it, and applies {@code changes} in the same
   * request.
   */
  void withdraw(List<Op> changes, Deadline deadline) throws GlobalRefException {
    if (unresolved) {
      throw new IllegalStateException("the last transaction of this slot may still apply");
    }
    unresolved = true;
    close(changes, deadline);
  }

  private Result close(List<Op> changes, Deadline deadline) throws GlobalRefException {
    Mark closed = mark.next(Outcome.VOID);
    List<Op> puts = with(changes, closing(Outcome.VOID));
    try {
      if (Planted.ON && Planted.is("global-02")) {
        Optional<KeyValue> now = Etcd.first(etcd.read(key, GetOption.DEFAULT, deadline));
        if (now.isEmpty() || !Etcd.text(now.get()).equals(mark.text())) {
          return told(now);
        }
        unresolved = false;
        return new Result(Outcome.VOID, 0, List.of());
      }
      TxnResponse answer = etcd.commitAgain(List.of(Etcd.is(key, mark.text())), puts, List.of(Etcd.get(key)), deadline);
      if (answer.isSucceeded()) {
        closedAs(closed);
        return new Result(Outcome.VOID, answer.getHeader().getRevision(), List.of());
      }
      return told(Etcd.first(answer.getGetResponses().getFirst()));
    } catch (NoAnswer | Refused e) {
      throw notKnown(e);
    }
  }

  private static NoAnswer notKnown(GlobalRefException cause) {
    return new NoAnswer(cause.getMessage() + ". Whether the change was made is not known; refdb will find out", cause);
  }

  /**
   * Determines the outcome after an error. A full etcd may respond with an error although it carried out the request,
   * but the request is no longer in flight, so reading the mark is enough.
   */
  private Result afterError(Refused error, Deadline deadline) throws GlobalRefException {
    Optional<KeyValue> now;
    try {
      now = Etcd.first(etcd.read(key, GetOption.DEFAULT, deadline));
    } catch (NoAnswer | Refused e) {
      throw notKnown(e);
    }
    if (now.map(Etcd::text).equals(Optional.of(mark.text()))) {
      unresolved = false;
      throw error;
    }
    return told(now);
  }

  private Result told(Optional<KeyValue> entry) throws GlobalRefException {
    if (entry.isEmpty()) {
      throw new GlobalRefException(
          "etcd does not have the mark of this process any more: start the process again. A program loses its marks if"
              + " it cannot reach etcd for an hour", null);
    }
    String text = Etcd.text(entry.get());
    Mark now = Mark.parse(text);
    if (!now.start().equals(mark.start()) || now.number() != mark.number() + 1) {
      throw new GlobalRefException(
          "another process has taken the place of this node in etcd: its mark is \"" + text + "\", not after \""
              + mark.text() + "\". Give each Gerrit a site of its own, and restart this one", null);
    }
    closedAs(now);
    return new Result(now.outcome(), entry.get().getModRevision(), List.of());
  }
}

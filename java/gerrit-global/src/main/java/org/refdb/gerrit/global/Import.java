package org.refdb.gerrit.global;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.LongConsumer;

/**
 * Takes the refs of a project up, many at once. Values that etcd has already stay, so it may be stopped and begun again, and
 * updates may go on meanwhile. No mark is needed: a late copy of a request changes nothing that is there.
 */
final class Import {
  /** Comparisons and puts of one transaction; etcd allows 128 of each. */
  private static final int REFS_AT_ONCE = 100;

  private static final int UNDER_WAY = 8;

  /** A ref and its value. */
  record Entry(String ref, String value) {}

  private final Projects projects;
  private final Etcd etcd;
  private final Keys keys;

  Import(GlobalRefs refs) {
    projects = refs.projects();
    etcd = refs.etcd();
    keys = refs.keys();
  }

  /** Puts all refs that etcd has not. The project counts as imported when the last one is there. */
  void run(String project, Iterator<Entry> refs, LongConsumer progress) throws GlobalRefException {
    Generation generation = projects.findOrBegin(project, deadline());
    long done = 0;
    try (ExecutorService threads = Executors.newFixedThreadPool(UNDER_WAY)) {
      List<Future<Integer>> underWay = new ArrayList<>();
      while (refs.hasNext() || !underWay.isEmpty()) {
        while (refs.hasNext() && underWay.size() < 2 * UNDER_WAY) {
          List<Entry> some = new ArrayList<>(REFS_AT_ONCE);
          while (refs.hasNext() && some.size() < REFS_AT_ONCE) {
            some.add(refs.next());
          }
          underWay.add(threads.submit(() -> put(project, generation, some)));
        }
        done += finished(underWay.removeFirst());
        progress.accept(done);
      }
    }
    projects.markImported(project, generation, deadline());
  }

  private static int finished(Future<Integer> batch) throws GlobalRefException {
    try {
      return batch.get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof GlobalRefException known) {
        throw known;
      }
      throw new IllegalStateException(e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GlobalRefException("the import was interrupted; begun again, it goes on", e);
    }
  }

  private Deadline deadline() {
    return Deadline.in(etcd.settings().timeout(), etcd.settings().requestTimeout());
  }

  private int put(String project, Generation generation, List<Entry> entries) throws GlobalRefException {
    Cmp same = projects.is(project, generation);
    List<Cmp> allAbsent = new ArrayList<>(List.of(same));
    List<Op> puts = new ArrayList<>();
    List<Op> oneByOne = new ArrayList<>();
    for (Entry entry : entries) {
      ByteSequence key = keys.value(generation, entry.ref());
      Op put = Op.put(key, Keys.bytes(entry.value()), PutOption.DEFAULT);
      allAbsent.add(Etcd.isAbsent(key));
      puts.add(put);
      oneByOne.add(Op.txn(new Cmp[] {same, Etcd.isAbsent(key)}, new Op[] {put}, new Op[0]));
    }
    etcd.commitAgain(allAbsent, puts, oneByOne, deadline());
    return entries.size();
  }
}

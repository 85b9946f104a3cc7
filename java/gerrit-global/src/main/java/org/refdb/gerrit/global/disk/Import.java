package org.refdb.gerrit.global.disk;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.op.RangeIsAbsent;
import io.etcd.jetcd.options.PutOption;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.Stage;

/**
 * Puts the refs of a project into etcd, many per request. Values that etcd has already are kept, so an import may be
 * stopped and restarted, and updates may go on meanwhile. It needs no mark, because a delayed copy of a request does
 * not change values that exist.
 */
public final class Import {
  /** Refs per transaction; by default etcd accepts 128 puts in one. */
  private static final int REFS_AT_ONCE = 100;

  private static final int UNDER_WAY = 8;

  /** A ref with its value. */
  private record Entry(String ref, String value) {}

  /** Receives the progress of an import. */
  public interface Progress {
    /**
     * Called now and then while refs are put, and at the end.
     *
     * @param put number of refs that were put, including those that others put meanwhile
     * @param there number of refs that etcd was found to have already, on this disk or not
     */
    void at(long put, long there);
  }

  /** Result of an import, with the numbers of {@link Progress}. */
  public record Summary(long put, long there) {}

  private final GlobalRefs refs;

  public Import(GlobalRefs refs) {
    this.refs = refs;
  }

  public boolean isDone(String project) throws GlobalRefException {
    return refs.projects().look(project, refs.deadline()).filter(Generation::imported).isPresent();
  }

  /** Puts all refs that etcd does not have. The project counts as imported once the last one is there. */
  public Summary run(DiskRefs disk, Progress progress) throws IOException, GlobalRefException {
    String project = disk.project();
    Generation generation = refs.projects().findOrBegin(project, refs.deadline());
    Pairs pairs = new Pairs(disk, new EtcdRefs(refs, generation));
    long put = 0;
    long there = 0;
    ExecutorService threads =
        Executors.newFixedThreadPool(
            UNDER_WAY, Thread.ofPlatform().daemon().name("refdb-global-import").factory());
    try {
      Deque<Future<Integer>> underWay = new ArrayDeque<>();
      List<Entry> some = new ArrayList<>(REFS_AT_ONCE);
      for (Optional<Pairs.Pair> next = pairs.next(); next.isPresent(); next = pairs.next()) {
        Pairs.Pair pair = next.get();
        if (pair.etcd().isPresent()) {
          there++;
          continue;
        }
        some.add(new Entry(pair.ref(), pair.disk().get()));
        if (some.size() == REFS_AT_ONCE) {
          List<Entry> full = some;
          underWay.add(threads.submit(() -> put(project, generation, full)));
          some = new ArrayList<>(REFS_AT_ONCE);
          if (underWay.size() == 2 * UNDER_WAY) {
            put += finished(underWay.removeFirst());
            progress.at(put, there);
          }
        }
      }
      List<Entry> last = some;
      underWay.add(threads.submit(() -> put(project, generation, last)));
      for (Future<Integer> each : underWay) {
        put += finished(each);
      }
      progress.at(put, there);
    } finally {
      threads.shutdownNow();
    }
    refs.projects().markImported(project, generation, refs.deadline());
    return new Summary(put, there);
  }

  private static int finished(Future<Integer> batch) throws GlobalRefException {
    try {
      return batch.get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof GlobalRefException known) {
        throw known;
      }
      // Wrapped, so that `import --all` goes on with the next project.
      throw new GlobalRefException("the import failed: " + e.getCause(), e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GlobalRefException("the import was interrupted; begun again, it goes on", e);
    }
  }

  /**
   * Puts refs if etcd still has this generation of the project, unchanged: all at once if etcd has no value between the
   * first and the last of them, else those that have none. Returns the number of entries, whether they were put or not.
   */
  private int put(String project, Generation generation, List<Entry> entries) throws GlobalRefException {
    if (entries.isEmpty()) {
      return 0;
    }
    Cmp same = refs.projects().is(project, generation);
    List<ByteSequence> keys = entries.stream().map(entry -> refs.keys().value(generation, entry.ref())).toList();
    List<Op> puts = new ArrayList<>();
    for (int i = 0; i < entries.size(); i++) {
      puts.add(Op.put(keys.get(i), Keys.bytes(entries.get(i).value()), PutOption.DEFAULT));
    }
    Cmp allAbsent = new RangeIsAbsent(keys.getFirst(), Keys.after(keys.getLast()));
    if (!refs.etcd().commitAgain(List.of(same, allAbsent), puts, List.of(), refs.deadline()).isSucceeded()) {
      putEach(project, same, keys, puts);
    }
    return entries.size();
  }

  /**
   * Puts each ref that has no value in etcd, and waits for batches that have staged one of the refs, because only their
   * outcome decides whether the ref has a value. If {@code same} is not true, this puts nothing, and fails unless each
   * of the refs has a value.
   */
  private void putEach(String project, Cmp same, List<ByteSequence> keys, List<Op> puts) throws GlobalRefException {
    List<Op> reads = keys.stream().map(Etcd::get).toList();
    boolean isStaged = true;
    while (isStaged) {
      List<Op> oneByOne = new ArrayList<>();
      for (int i = 0; i < puts.size(); i++) {
        oneByOne.add(
            Op.txn(new Cmp[] {Etcd.isAbsent(keys.get(i))}, new Op[] {puts.get(i)}, new Op[] {Etcd.get(keys.get(i))}));
      }
      isStaged = false;
      TxnResponse all = refs.etcd().commitAgain(List.of(same), oneByOne, reads, refs.deadline());
      List<GetResponse> there =
          all.isSucceeded()
              ? all.getTxnResponses().stream()
                  .filter(each -> !each.isSucceeded())
                  .map(each -> each.getGetResponses().getFirst())
                  .toList()
              : all.getGetResponses();
      if (there.stream().anyMatch(read -> Etcd.first(read).isEmpty())) {
        throw new GlobalRefException(
            project + " was removed while it was imported, or another import of it has ended, without refs"
                + " that this disk has",
            null);
      }
      for (GetResponse read : there) {
        KeyValue entry = Etcd.first(read).get();
        if (Stage.is(entry)) {
          refs.stages().clear(entry, refs.deadline());
          isStaged = true;
        }
      }
    }
  }
}

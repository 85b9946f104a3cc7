package org.refdb.jgit;

import java.io.IOException;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.Ref;
import org.refdb.engine.BatchResult;
import org.refdb.engine.Planted;
import org.refdb.engine.RefBatch;
import org.refdb.engine.Unpacker;

/**
 * The wrong behaviour of a {@link RefdbDatabase} under planted faults that need a state of their own. No released jar
 * has this class.
 */
final class PlantedRefs {
  private static final Map<RefdbDatabase, PlantedRefs> OF = Collections.synchronizedMap(new WeakHashMap<>());

  /** The refs that outlive their database and their repository (refs-16), by the repository's folder and their name. */
  private static final Map<String, Ref> KEPT_FOR_EVER = new ConcurrentHashMap<>();

  private final Map<String, Ref> kept = new ConcurrentHashMap<>();
  private final ThreadLocal<Map<String, Ref>> keptByThread = ThreadLocal.withInitial(HashMap::new);
  private final Map<List<String>, List<Ref>> lists = new ConcurrentHashMap<>();
  private final ReadWriteLock lock = new ReentrantReadWriteLock();
  private boolean isRead;

  static PlantedRefs of(RefdbDatabase refs) {
    return OF.computeIfAbsent(refs, any -> new PlantedRefs());
  }

  /** Returns whether {@link #answer} answers a query for a ref instead of the engine. */
  boolean answers(RefdbDatabase refs, String name) throws IOException {
    if (Planted.is("refs-22") && !isRead) {
      isRead = true;
      refs.getRefsByPrefix(Constants.R_REFS);
    }
    boolean isHidden =
        Planted.is("refs-04") && !name.startsWith(Constants.R_REFS) && !name.equals(Constants.HEAD)
            || Planted.is("refs-21") && !name.matches("([A-Z_]+|refs(/(.|\\n)+)+)")
            // Acts like a search that misses the last record of a block.
            || Planted.is("refs-24") && refs.view().isReftable() && name.hashCode() % 20 == 0;
    return isHidden
        || kept.containsKey(name)
        || KEPT_FOR_EVER.containsKey(key(refs, name))
        || keptByThread.get().containsKey(name);
  }

  Ref answer(RefdbDatabase refs, String name) {
    Ref ref = kept.getOrDefault(name, KEPT_FOR_EVER.get(key(refs, name)));
    return ref != null ? ref : keptByThread.get().get(name);
  }

  /** Records a ref as it is on disk, and returns the answer to the query. */
  Ref found(RefdbDatabase refs, String name, Ref ref) {
    if (Planted.is("refs-17")) {
      keptByThread.get().put(name, ref);
    }
    if (ref != null && keeps(name, ref)) {
      kept.put(name, ref);
    }
    if (ref != null && Planted.is("refs-16")) {
      KEPT_FOR_EVER.put(key(refs, name), ref);
    }
    return Planted.is("refs-03") && ref != null && ref.getObjectId() == null ? null : ref;
  }

  private static boolean keeps(String name, Ref ref) {
    boolean keepsAll = Planted.is("refs-05") || Planted.is("refs-06") || Planted.is("refs-07") || Planted.is("refs-18");
    return keepsAll
        || Planted.is("refs-01") && name.equals(Constants.HEAD)
        || Planted.is("refs-02") && !ref.isSymbolic();
  }

  private static String key(RefdbDatabase refs, String name) {
    return refs.repository().getDirectory() + name;
  }

  /** Returns the list that an earlier query got, or null. */
  List<Ref> list(Collection<String> prefixes) {
    return lists.get(List.copyOf(prefixes));
  }

  void listed(Collection<String> prefixes, List<Ref> list) {
    if (Planted.is("refs-10")) {
      lists.put(List.copyOf(prefixes), list);
    }
  }

  void beginQuestion() {
    if (Planted.is("refs-20")) {
      lock.readLock().lock();
    }
  }

  void endQuestion() {
    if (Planted.is("refs-20")) {
      lock.readLock().unlock();
    }
  }

  BatchResult commit(RefdbDatabase refs, BatchCommitter committer, RefBatch batch) throws IOException {
    BatchResult result;
    if (Planted.is("refs-20")) {
      lock.writeLock().lock();
    }
    try {
      result = committer.commit(refs.view(), batch);
    } finally {
      if (Planted.is("refs-20")) {
        lock.writeLock().unlock();
      }
    }
    if (Planted.is("refs-23")) {
      refs.getRefsByPrefix(Constants.R_REFS);
    }
    if (result.done() && result.rejections().size() < batch.size()) {
      forget(refs, batch);
    }
    return result;
  }

  /** Acts like a cache that knows only of its own changes. */
  private void forget(RefdbDatabase refs, RefBatch batch) throws IOException {
    batch.names().forEach(kept::remove);
    keptByThread.get().clear();
    lists.clear();
    if (Planted.is("refs-16")) {
      Unpacker now = refs.view().lookupMany(batch.names());
      for (String name : batch.names()) {
        Ref ref = RefDecoder.resolved(name, now);
        if (ref == null) {
          KEPT_FOR_EVER.remove(key(refs, name));
        } else {
          KEPT_FOR_EVER.put(key(refs, name), ref);
        }
      }
    }
  }
}

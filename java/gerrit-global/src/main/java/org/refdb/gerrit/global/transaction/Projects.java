package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;

/**
 * The generations of projects. This process may cache them, because each read and each put checks that the cached one
 * is still current.
 */
public final class Projects {
  private static final int CLEARED_AT_ONCE = 1000;

  private final Etcd etcd;
  private final Keys keys;
  private final Map<String, Generation> known = new ConcurrentHashMap<>();

  Projects(Etcd etcd, Keys keys) {
    this.etcd = etcd;
    this.keys = keys;
  }

  /** Returns the cached generation of a project, else the one in etcd; empty if there is neither. */
  Optional<Generation> find(String project, Deadline deadline) throws GlobalRefException {
    Generation remembered = known.get(project);
    return remembered != null ? Optional.of(remembered) : look(project, deadline);
  }

  public Optional<Generation> look(String project, Deadline deadline) throws GlobalRefException {
    return remember(project, Etcd.text(etcd.read(keys.project(project), GetOption.DEFAULT, deadline)));
  }

  /** Caches the generation that etcd has for a project, as {@code text}; forgets the cached one if etcd has none. */
  public Optional<Generation> remember(String project, Optional<String> text) throws GlobalRefException {
    if (text.isEmpty()) {
      known.remove(project);
      return Optional.empty();
    }
    Generation generation = Generation.parse(text.get());
    known.put(project, generation);
    return Optional.of(generation);
  }

  /** The generation of a project, which is created if there is none. */
  public Generation findOrBegin(String project, Deadline deadline) throws GlobalRefException {
    Optional<Generation> found = find(project, deadline);
    while (found.isEmpty()) {
      ByteSequence key = keys.project(project);
      etcd.commitAgain(
          List.of(Etcd.isAbsent(key)),
          List.of(Op.put(key, Keys.bytes(Generation.random().text()), PutOption.DEFAULT)),
          List.of(),
          deadline);
      found = look(project, deadline);
    }
    return found.get();
  }

  public Cmp is(String project, Generation generation) {
    return Etcd.is(keys.project(project), generation.text());
  }

  /** Marks a project as imported: from now on, a ref without a value does not exist. */
  public void markImported(String project, Generation generation, Deadline deadline) throws GlobalRefException {
    Generation imported = new Generation(generation.id(), true);
    etcd.commitAgain(
        List.of(is(project, generation)),
        List.of(Op.put(keys.project(project), Keys.bytes(imported.text()), PutOption.DEFAULT)),
        List.of(),
        deadline);
    if (!look(project, deadline).equals(Optional.of(imported))) {
      throw new GlobalRefException(project + " was removed while it was imported", null);
    }
  }

  /** Removes a project. Returns whether it existed, so that its values have to be cleared. */
  public boolean remove(String project, Deadline deadline) throws GlobalRefException {
    Optional<Generation> found = look(project, deadline);
    if (found.isEmpty()) {
      return false;
    }
    // A delayed copy of this request removes this generation or none, because it compares the generation.
    etcd.commitAgain(
        List.of(is(project, found.get())),
        List.of(
            Op.delete(keys.project(project), DeleteOption.DEFAULT),
            Op.put(keys.removed(found.get()), Keys.bytes(project), PutOption.DEFAULT)),
        List.of(),
        deadline);
    Optional<Generation> left = look(project, deadline);
    known.remove(project);
    // If an import of the generation has ended meanwhile, the generation is still there, with another entry.
    boolean isImported = !left.equals(found) && left.map(Generation::id).equals(found.map(Generation::id));
    return !isImported || remove(project, deadline);
  }

  /**
   * Deletes the values and locks of removed generations, in small steps so that etcd is not blocked. Each step has its
   * own deadline.
   */
  public void clearRemoved(Supplier<Deadline> deadline) throws GlobalRefException {
    ByteSequence all = keys.allRemoved();
    GetOption prefix = GetOption.builder().isPrefix(true).withLimit(CLEARED_AT_ONCE).build();
    List<KeyValue> some = etcd.read(all, prefix, deadline.get()).getKvs();
    while (!some.isEmpty()) {
      for (KeyValue removed : some) {
        Generation generation = Generation.parse(Keys.rest(removed.getKey(), all));
        clear(keys.values(generation), deadline);
        clear(keys.locks(generation), deadline);
        etcd.commitAgain(
            List.of(),
            List.of(Op.delete(removed.getKey(), DeleteOption.DEFAULT)),
            List.of(),
            deadline.get());
      }
      some = etcd.read(all, prefix, deadline.get()).getKvs();
    }
  }

  private void clear(ByteSequence prefix, Supplier<Deadline> deadline) throws GlobalRefException {
    GetOption some = GetOption.builder().isPrefix(true).withKeysOnly(true).withLimit(CLEARED_AT_ONCE).build();
    while (true) {
      List<KeyValue> found = etcd.read(prefix, some, deadline.get()).getKvs();
      if (found.isEmpty()) {
        return;
      }
      DeleteOption upToLast = DeleteOption.builder().withRange(Keys.after(found.getLast().getKey())).build();
      etcd.commitAgain(List.of(), List.of(Op.delete(found.getFirst().getKey(), upToLast)), List.of(), deadline.get());
    }
  }
}

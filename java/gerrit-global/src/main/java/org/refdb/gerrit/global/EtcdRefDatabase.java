package org.refdb.gerrit.global;

import com.gerritforge.gerrit.globalrefdb.ExtendedGlobalRefDatabase;
import com.gerritforge.gerrit.globalrefdb.GlobalRefDbLockException;
import com.gerritforge.gerrit.globalrefdb.GlobalRefDbSystemError;
import com.google.gerrit.entities.Project;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongConsumer;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.refdb.gerrit.global.disk.RolledBackRefs;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.transaction.GlobalRefs.Found;
import org.refdb.gerrit.global.transaction.Sequences;
import org.refdb.gerrit.global.transaction.Values;

/** Gerrit's interface to the global ref database, implemented by {@link GlobalRefs}. */
@Singleton
public final class EtcdRefDatabase implements ExtendedGlobalRefDatabase {
  private final GlobalRefs refs;
  private final RolledBackRefs rolledBack;

  @Inject
  EtcdRefDatabase(GlobalRefs refs, RolledBackRefs rolledBack) {
    this.refs = refs;
    this.rolledBack = rolledBack;
  }

  @Override
  public boolean isUpToDate(Project.NameKey project, Ref ref) throws GlobalRefDbLockException {
    try {
      return isOfThisNode(ref) || agrees(refs.read(project.get(), ref.getName()), ref);
    } catch (GlobalRefException e) {
      throw new GlobalRefDbLockException(project.get(), ref.getName(), e);
    }
  }

  @Override
  public boolean isUpToDateUnchecked(Project.NameKey project, Ref ref) {
    try {
      return isOfThisNode(ref) || agrees(refs.read(project.get(), ref.getName()), ref);
    } catch (GlobalRefException e) {
      throw failed("read", project, ref.getName(), e);
    }
  }

  /**
   * Returns whether each node has its own value of a ref. This holds for HEAD and for symbolic refs, because the
   * interface does not pass the targets of symbolic refs.
   */
  private static boolean isOfThisNode(Ref ref) {
    return ref.isSymbolic() || ref.getName().equals(Constants.HEAD);
  }

  private static boolean agrees(Found found, Ref ref) {
    if (found.value().isEmpty()) {
      return !found.imported() || Values.isNothing(ref);
    }
    return Values.isNothing(ref) ? Values.isDeleted(found.value().get()) : Values.text(ref).equals(found.value().get());
  }

  @Override
  public boolean compareAndPut(Project.NameKey project, Ref currRef, ObjectId newRefValue)
      throws GlobalRefDbSystemError {
    if (currRef.isSymbolic() && newRefValue != null && !newRefValue.equals(ObjectId.zeroId())) {
      // An update through a symbolic ref is one of its target.
      return compareAndPut(project, currRef.getLeaf(), newRefValue);
    }
    if (isOfThisNode(currRef)) {
      return true;
    }
    String ref = currRef.getName();
    String value = newRefValue == null ? Values.DELETED.getFirst() : newRefValue.name();
    // If etcd has a sequence's new number already, this is no success: another node has taken the number, too, and
    // both would use it.
    boolean catchesUp = !Sequences.is(ref);
    RolledBackRefs.Put put =
        new RolledBackRefs.Put(
            project.get(),
            ref,
            Values.isNothing(currRef) ? Optional.empty() : Optional.of(Values.text(currRef)));
    boolean isDone = false;
    try {
      isDone =
          compareAndPut(
              project,
              ref,
              Values.expected(currRef),
              value,
              catchesUp,
              revision -> rolledBack.made(put, revision));
      return isDone;
    } finally {
      if (!isDone) {
        rolledBack.failed();
      }
    }
  }

  @Override
  public <T> boolean compareAndPut(Project.NameKey project, String refName, T currValue, T newValue)
      throws GlobalRefDbSystemError {
    return compareAndPut(project, refName, Values.expected(currValue), Values.text(newValue), false, revision -> {});
  }

  private boolean compareAndPut(
      Project.NameKey project, String ref, Expected expected, String value, boolean catchesUp, LongConsumer put) {
    try {
      return refs.compareAndPut(project.get(), ref, expected, value, catchesUp, put);
    } catch (GlobalRefException e) {
      throw failed("update", project, ref, e);
    }
  }

  @Override
  public <T> void put(Project.NameKey project, String refName, T newValue) throws GlobalRefDbSystemError {
    compareAndPut(project, refName, new Expected.Anything(), Values.text(newValue), false, revision -> {});
  }

  @Override
  public AutoCloseable lockRef(Project.NameKey project, String refName) throws GlobalRefDbLockException {
    try {
      AutoCloseable lock = refs.lock(project.get(), refName);
      AtomicBoolean open = new AtomicBoolean(true);
      return () -> {
        if (open.getAndSet(false)) { // else an update under the next lock of the ref would be forgotten
          rolledBack.released(project.get(), refName);
          lock.close();
        }
      };
    } catch (GlobalRefException e) {
      throw new GlobalRefDbLockException(project.get(), refName, e);
    }
  }

  @Override
  public boolean exists(Project.NameKey project, String refName) {
    try {
      return refs.read(project.get(), refName).value().isPresent();
    } catch (GlobalRefException e) {
      throw failed("read", project, refName, e);
    }
  }

  @Override
  public void remove(Project.NameKey project) throws GlobalRefDbSystemError {
    try {
      refs.remove(project.get());
    } catch (GlobalRefException e) {
      throw failed("remove", project, "all refs", e);
    }
  }

  @Override
  public <T> Optional<T> get(Project.NameKey project, String refName, Class<T> clazz) throws GlobalRefDbSystemError {
    Optional<String> text;
    try {
      text = refs.read(project.get(), refName).value();
    } catch (GlobalRefException e) {
      throw failed("read", project, refName, e);
    }
    try {
      return text.map(value -> Values.parse(value, clazz));
    } catch (IllegalArgumentException e) {
      throw failed("read", project, refName, e);
    }
  }

  private static GlobalRefDbSystemError failed(String what, Project.NameKey project, String ref, Exception why) {
    return new GlobalRefDbSystemError(
        "cannot "
            + what
            + " "
            + ref
            + " of "
            + project.get()
            + " in the global ref database: "
            + why.getMessage(),
        why);
  }
}

package com.gerritforge.gerrit.globalrefdb;

import com.google.gerrit.entities.Project;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;

/** The global ref database of several Gerrit servers, which stores the value of each ref. */
public interface GlobalRefDatabase {
  /** Returns whether the ref of this node has the same value as in the database, or was never stored there. */
  boolean isUpToDate(Project.NameKey project, Ref ref) throws GlobalRefDbLockException;

  /**
   * Returns what {@link #isUpToDate} does, without warnings and without a checked exception, for a caller that changes
   * nothing.
   */
  default boolean isUpToDateUnchecked(Project.NameKey project, Ref ref) {
    throw new UnsupportedOperationException(getClass().getName());
  }

  /** Moves a ref if the database has it as this one. */
  boolean compareAndPut(Project.NameKey project, Ref currRef, ObjectId newRefValue) throws GlobalRefDbSystemError;

  /** Changes a value if the database has this one. */
  <T> boolean compareAndPut(Project.NameKey project, String refName, T currValue, T newValue) throws GlobalRefDbSystemError;

  /** Waits for the lock of a ref. */
  AutoCloseable lockRef(Project.NameKey project, String refName) throws GlobalRefDbLockException;

  /** Returns whether the database has a value for the ref. */
  boolean exists(Project.NameKey project, String refName);

  /** Forgets a project. */
  void remove(Project.NameKey project) throws GlobalRefDbSystemError;

  /** The value for it, if there is one. */
  <T> Optional<T> get(Project.NameKey project, String refName, Class<T> clazz) throws GlobalRefDbSystemError;
}

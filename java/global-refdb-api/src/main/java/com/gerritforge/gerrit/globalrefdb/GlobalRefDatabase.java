package com.gerritforge.gerrit.globalrefdb;

import com.google.gerrit.entities.Project;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;

/** Where each ref of several Gerrits points. */
public interface GlobalRefDatabase {
  /** Whether the ref of this node is as in the database, or was never seen there. */
  boolean isUpToDate(Project.NameKey project, Ref ref) throws GlobalRefDbLockException;

  /** The same for a caller that changes nothing: without warnings, and without a checked exception. */
  default boolean isUpToDateUnchecked(Project.NameKey project, Ref ref) {
    throw new UnsupportedOperationException(getClass().getName());
  }

  /** Moves a ref if the database has it as this one. */
  boolean compareAndPut(Project.NameKey project, Ref currRef, ObjectId newRefValue) throws GlobalRefDbSystemError;

  /** Changes a value if the database has this one. */
  <T> boolean compareAndPut(Project.NameKey project, String refName, T currValue, T newValue) throws GlobalRefDbSystemError;

  /** Waits for the lock of a ref. */
  AutoCloseable lockRef(Project.NameKey project, String refName) throws GlobalRefDbLockException;

  /** Whether the database has a value for it. */
  boolean exists(Project.NameKey project, String refName);

  /** Forgets a project. */
  void remove(Project.NameKey project) throws GlobalRefDbSystemError;

  /** The value for it, if there is one. */
  <T> Optional<T> get(Project.NameKey project, String refName, Class<T> clazz) throws GlobalRefDbSystemError;
}

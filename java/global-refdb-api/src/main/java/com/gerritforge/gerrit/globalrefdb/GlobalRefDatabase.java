package com.gerritforge.gerrit.globalrefdb;

import com.google.gerrit.entities.Project;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;

/** The global ref database of several Gerrit servers, which stores the value of each ref. */
public interface GlobalRefDatabase {
  /**
   * Returns whether the ref of this node has the same value as in the database. A ref that the database does not have
   * counts as up to date, except in a project that was imported: there the database has all refs, so that only a ref
   * that this node does not have either is up to date. HEAD and symbolic refs always count as up to date, because each
   * node has its own.
   */
  boolean isUpToDate(Project.NameKey project, Ref ref) throws GlobalRefDbLockException;

  /**
   * Returns what {@link #isUpToDate} does, but logs no warning and throws no checked exception. It is for callers that
   * only read. Implementations override it: the default throws an {@link UnsupportedOperationException}.
   */
  default boolean isUpToDateUnchecked(Project.NameKey project, Ref ref) {
    throw new UnsupportedOperationException(getClass().getName());
  }

  /**
   * Sets the ref to {@code newRefValue} if its value in the database is that of {@code currRef}, or if the database has
   * none and the project was not imported; null or a zero id deletes it. If {@code currRef} is symbolic, the ref to
   * which it leads is set, but nothing is deleted. Returns false if the database has another value. Returns true also
   * if the database does not store the ref, which holds for HEAD, or has {@code newRefValue} already. The latter does
   * not apply to a sequence: two nodes that increment it to the same number have each used that number.
   */
  boolean compareAndPut(Project.NameKey project, Ref currRef, ObjectId newRefValue) throws GlobalRefDbSystemError;

  /** Replaces {@code currValue} by {@code newValue}. Returns false if the database has another value. */
  <T> boolean compareAndPut(Project.NameKey project, String refName, T currValue, T newValue) throws GlobalRefDbSystemError;

  /** Waits for the lock of a ref and takes it. Closing the result releases the lock. */
  AutoCloseable lockRef(Project.NameKey project, String refName) throws GlobalRefDbLockException;

  /** Returns whether the database has a value for the ref. A ref that was deleted there has one, the zero id. */
  boolean exists(Project.NameKey project, String refName);

  /** Forgets a project. */
  void remove(Project.NameKey project) throws GlobalRefDbSystemError;

  /** Returns the value of the ref in the database, if there is one; that of a deleted ref is the zero id. */
  <T> Optional<T> get(Project.NameKey project, String refName, Class<T> clazz) throws GlobalRefDbSystemError;
}

package org.refdb.gerrit.refs;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.RepositoryCache;
import org.refdb.engine.VerifyReport;

/**
 * A repository whose refs the engine serves. It is a {@link FileRepository}, so that garbage collection, gitweb,
 * inserting packs and everything else that casts to that class works as before.
 *
 * <p>The constructor of FileRepository opens JGit's ref database, which is closed again at once, because with reftables
 * it would keep tables open that others compact away. What needs JGit's view, such as converting the ref storage and
 * shadow mode, opens a plain repository.
 */
final class RefdbRepository extends FileRepository {
  private final ProjectState state;
  private final RefEngine engine;
  private final Object lock = new Object();

  /** Null until the constructor has opened it, and after the repository is closed. */
  private volatile RefDatabase refs;

  /** Created on first use; null again once {@link #refs} is replaced or shadow mode ends. */
  private volatile ShadowRefDatabase shadow;

  /** The thread that is closing this repository, else null. */
  private volatile Thread closer;

  RefdbRepository(File gitDir, ProjectState state, RefEngine engine) throws IOException {
    super(gitDir);
    this.state = state;
    this.engine = engine;
    super.getRefDatabase().close();
    this.refs = engine.open(this);
  }

  ProjectState state() {
    return state;
  }

  boolean isServedBy(RefEngine one) {
    return engine == one;
  }

  /**
   * {@inheritDoc}
   *
   * <p>JGit calls this on every use, even while it closes the repository, which must not open anything. A repository
   * that is used after it was closed gets its refs opened again, as JGit's ref directory permits.
   */
  @Override
  public RefDatabase getRefDatabase() {
    if (state != null && closer != Thread.currentThread()) {
      state.requested.increment();
    }
    RefDatabase current = refs;
    if (current == null) {
      current = engine == null || closer == Thread.currentThread() ? super.getRefDatabase() : reopened();
    }
    return state == null
            || !state.shadow
            || engine.global().isPresent()
            || closer == Thread.currentThread()
        ? current
        : shadowOf(current);
  }

  /** The engine's database, whether or not JGit answers in its place. */
  RefDatabase engineRefs() {
    RefDatabase current = refs;
    return current != null ? current : reopened();
  }

  /**
   * Finds the refs that point to each of some objects, or to a tag of it, in the order of the ids. This is a single
   * query except in shadow mode.
   *
   * @param ids distinct object ids
   */
  List<Set<Ref>> tips(List<? extends ObjectId> ids) throws IOException {
    return getRefDatabase() instanceof ShadowRefDatabase shadowed
        ? tipsOneByOne(shadowed, ids)
        : engine.tips(engineRefs(), ids);
  }

  /** Finds the refs of each object with a database that answers about one object at a time. */
  static List<Set<Ref>> tipsOneByOne(RefDatabase refs, List<? extends ObjectId> ids) throws IOException {
    List<Set<Ref>> tips = new ArrayList<>();
    for (ObjectId id : ids) {
      tips.add(refs.getTipsWithSha1(id));
    }
    return tips;
  }

  /** Compares the engine's view with the disk. */
  VerifyReport verify() throws IOException {
    return engine.verify(engineRefs());
  }

  /** Makes the engine drop its memory of this repository, so that it is read again. */
  void flush() throws IOException {
    engine.flush(engineRefs());
  }

  private RefDatabase reopened() {
    synchronized (lock) {
      if (refs == null) {
        try {
          refs = engine.open(this);
        } catch (IOException e) {
          throw new UncheckedIOException("cannot open the refs of " + getDirectory() + " again", e);
        }
      }
      return refs;
    }
  }

  private RefDatabase shadowOf(RefDatabase current) {
    ShadowRefDatabase made = shadow;
    if (made != null) {
      return made;
    }
    synchronized (lock) {
      if (shadow == null) {
        try {
          shadow = new ShadowRefDatabase(new FileRepository(getDirectory()), current, state);
        } catch (IOException e) {
          throw new UncheckedIOException("cannot open " + getDirectory() + " with JGit for the shadow mode", e);
        }
      }
      return shadow;
    }
  }

  /** Closes what shadow mode opened. */
  void endShadow() {
    synchronized (lock) {
      if (shadow != null) {
        shadow.closeVanilla();
        shadow = null;
      }
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>JGit converts with its own ref database, which is closed here. So a plain repository converts, and this one is
   * dropped from JGit's cache; the next user opens it in the new format.
   */
  @Override
  public void convertRefStorage(String format, boolean writeLogs, boolean backup) throws IOException {
    Ref head = engineRefs().exactRef(Constants.HEAD);
    try (FileRepository plain = new FileRepository(getDirectory())) {
      plain.convertRefStorage(format, writeLogs, backup);
      keepHead(plain, head);
    }
    getConfig(); // reads the new format
    synchronized (lock) {
      endShadow();
      RefDatabase old = refs;
      engine.forget(getDirectory().toPath());
      refs = engine.open(this);
      if (old != null) {
        old.close();
      }
    }
    RepositoryCache.unregister(RepositoryCache.FileKey.exact(getDirectory(), getFS()));
  }

  /**
   * Restores an unborn HEAD, which JGit's conversion to files loses; without HEAD, the folder is no repository any
   * more.
   */
  private static void keepHead(FileRepository plain, Ref head) throws IOException {
    if (head != null && head.isSymbolic() && plain.exactRef(Constants.HEAD) == null) {
      RefUpdate update = plain.updateRef(Constants.HEAD);
      update.disableRefLog();
      RefUpdate.Result result = update.link(head.getTarget().getName());
      if (result != RefUpdate.Result.NEW && result != RefUpdate.Result.NO_CHANGE) {
        throw new IOException("cannot write HEAD of " + plain.getDirectory() + " again after a conversion: " + result);
      }
    }
  }

  private void keepStats() {
    if (refs != null && state != null) {
      engine.stats(getDirectory().toPath()).ifPresent(state::keep);
    }
  }

  @Override
  protected void doClose() {
    closer = Thread.currentThread();
    try {
      keepStats();
      super.doClose(); // closes what getRefDatabase() gives
    } finally {
      synchronized (lock) {
        refs = null;
        endShadow();
      }
      closer = null;
    }
  }
}

package org.refdb.gerrit.global.disk;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.transaction.Locks;
import org.refdb.gerrit.global.transaction.Values;

/**
 * Reverts a ref in etcd whose update was rolled back on disk by the wrapper that Gerrit's global-refdb module puts
 * around repositories. The wrapper rolls back each ref of a batch if one of them fails, although etcd had accepted
 * others before, and also if a response is lost, although etcd may have applied the update. Without this class such
 * refs would stay out of sync until an administrator repairs them.
 *
 * <p>The wrapper holds the lock of a ref until the disk has its final value, so the disk decides once the lock is free.
 */
@Singleton
public final class RolledBackRefs implements LifecycleListener {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();
  private static final long MILLIS = 500;

  /**
   * A requested update.
   *
   * @param before the value on disk before; empty if the ref did not exist
   */
  public record Put(String project, String ref, Optional<String> before, Thread caller) {
    public Put(String project, String ref, Optional<String> before) {
      this(project, ref, before, Thread.currentThread());
    }
  }

  /** An update that etcd has applied. */
  private record Made(Put put, long revision) {}

  private final GlobalRefs refs;
  private final Disks disks;

  /** Applied updates whose lock is still held. */
  private final Map<Locks.Name, Made> underLock = new HashMap<>();

  private final Queue<Made> doubtful = new ConcurrentLinkedQueue<>();
  private final ScheduledExecutorService background =
      Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().daemon().name("refdb-global-back").factory());

  @Inject
  public RolledBackRefs(GlobalRefs refs, SiteProjects site) {
    this(refs, (Disks) site);
  }

  public RolledBackRefs(GlobalRefs refs, Disks disks) {
    this.refs = refs;
    this.disks = disks;
  }

  @Override
  public void start() {
    background.scheduleWithFixedDelay(this::lookOrLog, MILLIS, MILLIS, TimeUnit.MILLISECONDS);
  }

  @Override
  public void stop() {
    background.shutdownNow();
  }

  /**
   * Records that etcd has applied an update that may be rolled back on disk: one under a lock, or one whose caller was
   * told that the outcome is unknown, for which another thread calls this. Does nothing for other updates.
   */
  public synchronized void made(Put put, long revision) {
    Made made = new Made(put, revision);
    if (put.caller() != Thread.currentThread()) {
      doubtful.add(made);
    } else if (refs.locks().held(new Locks.Name(put.project(), put.ref())).isPresent()) {
      underLock.put(new Locks.Name(put.project(), put.ref()), made);
    }
  }

  /**
   * Records that an update of this thread failed, so that the wrapper may roll back the other ones whose locks the
   * thread holds.
   */
  public synchronized void failed() {
    underLock.values().removeIf(made -> made.put().caller() == Thread.currentThread() && doubtful.add(made));
  }

  /** Records that a lock is released: nothing is rolled back under it any more. */
  public synchronized void released(String project, String ref) {
    underLock.remove(new Locks.Name(project, ref));
  }

  private void lookOrLog() {
    try {
      look();
    } catch (RuntimeException | Error e) {
      log.atWarning().withCause(e).log("updates that were rolled back are checked later");
    }
  }

  /** Checks each doubtful update once. */
  public void look() {
    for (Made made : List.copyOf(doubtful)) {
      if (isSettled(made)) {
        doubtful.remove(made);
      }
    }
  }

  private boolean isSettled(Made made) {
    Put put = made.put();
    try (DiskRefs disk = disks.open(put.project())) {
      return isSettled(made, disk);
    } catch (RepositoryNotFoundException | GlobalRefException e) {
      log.atInfo().withCause(e).log("%s of %s is no longer a global ref", put.ref(), put.project());
      return true;
    } catch (IOException | RuntimeException | Error e) { // also an OutOfMemoryError: other updates are to be checked
      log.atWarning().atMostEvery(1, TimeUnit.MINUTES).withCause(e).log(
          "whether %s of %s was rolled back is checked once its repository can be read",
          put.ref(), put.project());
      return false;
    }
  }

  @SuppressWarnings("try") // the lock is only held; nothing is called on it
  private boolean isSettled(Made made, DiskRefs disk) throws IOException {
    Put put = made.put();
    try (AutoCloseable lock = refs.lock(put.project(), put.ref())) {
      String before = put.before().orElse(Values.DELETED.getFirst());
      if (Compare.agree(disk.value(put.ref()), put.before())
          && refs.compareAndPut(put.project(), put.ref(), new Expected.PutAt(made.revision()), before, false)) {
        log.atInfo().log(
            "etcd had an update of %s of %s that was rolled back on disk: it is reverted",
            put.ref(), put.project());
      }
      return true;
    } catch (GlobalRefException e) {
      log.atFine().withCause(e).log("whether %s of %s was rolled back is checked later", put.ref(), put.project());
      return false;
    } catch (IOException | RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new IOException(e);
    }
  }
}

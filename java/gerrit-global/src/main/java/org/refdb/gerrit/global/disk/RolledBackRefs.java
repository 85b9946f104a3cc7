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
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.transaction.Locks;
import org.refdb.gerrit.global.transaction.Values;

/**
 * Sets a ref in etcd back where Gerrit's wrapper has taken an update back on the disk. It does so with each ref of a batch if one of
 * them fails. Etcd had accepted others then. And it does so if an answer is lost, though etcd may have the value. Without this
 * such refs would be out of sync until an administrator comes.
 *
 * <p>The wrapper holds a ref's lock until the disk is as it is to stay. So the disk's word counts once the lock is free.
 */
@Singleton
public final class RolledBackRefs implements LifecycleListener {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();
  private static final long MILLIS = 500;

  /**
   * An update that is asked for.
   *
   * @param before what the disk had; empty for no ref
   */
  public record Put(String project, String ref, Optional<String> before, Thread caller) {
    public Put(String project, String ref, Optional<String> before) {
      this(project, ref, before, Thread.currentThread());
    }
  }

  /** One that etcd made. */
  private record Made(Put put, long revision) {}

  private final GlobalRefs refs;
  private final Disks disks;

  /** By ref, as long as it is locked. */
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

  /** Etcd has made an update. If its caller was told that this is not known, another thread says so. */
  public synchronized void made(Put put, long revision) {
    Made made = new Made(put, revision);
    if (put.caller() != Thread.currentThread()) {
      doubtful.add(made);
    } else if (refs.locks().held(new Locks.Name(put.project(), put.ref())).isPresent()) {
      underLock.put(new Locks.Name(put.project(), put.ref()), made);
    }
  }

  /** An update of this thread was not made. So it may take back the others whose locks it has. */
  public synchronized void failed() {
    underLock.values().removeIf(made -> made.put().caller() == Thread.currentThread() && doubtful.add(made));
  }

  /** Nothing is taken back under this lock any more. */
  public synchronized void released(String project, String ref) {
    underLock.remove(new Locks.Name(project, ref));
  }

  private void lookOrLog() {
    try {
      look();
    } catch (RuntimeException e) {
      log.atWarning().withCause(e).log("updates that were taken back are looked at later");
    }
  }

  /** Looks at each once. */
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
    } catch (IOException | GlobalRefException e) {
      log.atWarning().withCause(e).log("if %s of %s is out of sync now, `refdb-global repair` mends it", put.ref(), put.project());
      return true;
    }
  }

  @SuppressWarnings("try") // the lock is held and not asked
  private boolean isSettled(Made made, DiskRefs disk) throws IOException {
    Put put = made.put();
    try (AutoCloseable lock = refs.lock(put.project(), put.ref())) {
      String before = put.before().orElse(Values.DELETED.getFirst());
      if (Compare.agree(disk.value(put.ref()), put.before())
          && refs.compareAndPut(put.project(), put.ref(), new Expected.PutAt(made.revision()), before, false)) {
        log.atInfo().log("etcd had an update of %s of %s that was taken back on the disk: it is set back", put.ref(), put.project());
      }
      return true;
    } catch (GlobalRefException e) {
      log.atFine().withCause(e).log("whether %s of %s was taken back is looked at later", put.ref(), put.project());
      return false;
    } catch (IOException | RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new IOException(e);
    }
  }
}

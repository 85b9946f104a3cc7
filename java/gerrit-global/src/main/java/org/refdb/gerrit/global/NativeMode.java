package org.refdb.gerrit.global;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.config.SitePaths;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.Predicate;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.BatchResult;
import org.refdb.engine.ClosedHandleException;
import org.refdb.engine.EngineException;
import org.refdb.engine.GlobalIntent;
import org.refdb.engine.RefBatch;
import org.refdb.engine.EngineView;
import org.refdb.gerrit.global.disk.StoredRefs;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.Counts;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.Intents;
import org.refdb.gerrit.global.transaction.Intents.Outcome;
import org.refdb.gerrit.global.transaction.EtcdArbiter;
import org.refdb.gerrit.global.transaction.Sequences;
import org.refdb.gerrit.refs.GlobalCounts;
import org.refdb.gerrit.refs.GlobalDecision;
import org.refdb.gerrit.refs.GlobalSettled;
import org.refdb.jgit.BatchCommitter;
import org.refdb.jgit.NotAgreedException;

/** Native mode on etcd. The lib module loads this class by name from the plugin's jar, with a separate class loader. */
public final class NativeMode implements GlobalDecision, AutoCloseable {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();
  private static final long SETTLE_MILLIS = 500;
  private static final long PAUSE_MILLIS_MAX = 10_000;

  /** After how many failures in a row, which take some 8 s, an intent is worth a line in the log. */
  private static final int TOLD_FAILURES = 5;

  /** How many attempts a batch has to get past intents of other batches before it fails. */
  private static final int ATTEMPTS_MAX = 5;

  /** The project of an intent of this node that is to be settled, a view of the repository, and earlier attempts. */
  private static final class Open {
    final String project;
    final EngineView view;
    volatile int failures;
    private long dueNanos = System.nanoTime();

    Open(String project, EngineView view) {
      this.project = project;
      this.view = view;
    }

    boolean isDue() {
      return System.nanoTime() - dueNanos >= 0;
    }

    /** Makes the pause before the next attempt twice as long as the last one, up to {@link #PAUSE_MILLIS_MAX}. */
    void failed() {
      long pause = Math.min(SETTLE_MILLIS << Math.min(failures, 10), PAUSE_MILLIS_MAX);
      dueNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause);
      failures++;
    }
  }

  /** How long a server that is starting waits for another one of its site to end. */
  private static final Duration OTHER_SERVER = Duration.ofSeconds(30);

  /**
   * Locks that {@link #nodeOf} took, and their files: without a reference, garbage collection would close the files,
   * which releases the locks.
   */
  private static final Set<AutoCloseable> HELD = ConcurrentHashMap.newKeySet();

  private final GlobalRefs refs;
  private final StoredRefs stored;
  private final Intents intents;
  private final Map<String, Open> open = new ConcurrentHashMap<>();
  private final ScheduledExecutorService settling =
      Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().daemon().name("refdb-native").factory());

  /**
   * Called by the lib module.
   *
   * @param isServer whether this is the server of the site, not one of Gerrit's offline programs
   */
  public NativeMode(Config config, SitePaths site, boolean isServer) throws IOException {
    this(
        StoredRefs.of(site.etc_dir), // before the client, which nobody would close if this fails
        new GlobalRefs(
            Settings.of(config, site.site_path),
            isServer ? nodeOf(site.data_dir.resolve("refdb-native"), OTHER_SERVER) : NodeName.ofProgram()));
    if (refs.isOfProgram()) {
      // Nobody closes this object, and no later process takes the marks of a program over.
      Runtime.getRuntime().addShutdownHook(new Thread(this::close, "refdb-native-end"));
    }
  }

  NativeMode(StoredRefs stored, GlobalRefs refs) {
    this.stored = stored;
    this.refs = refs;
    intents = new Intents(refs);
    settling.scheduleWithFixedDelay(this::settleOpen, SETTLE_MILLIS, SETTLE_MILLIS, TimeUnit.MILLISECONDS);
  }

  /**
   * Returns the name of the server of a site, which the folder keeps, and locks it until the process ends. If another
   * server has the lock and does not release it in time, this one gets the name of a program, because two processes of
   * one name would take each other's marks.
   */
  static NodeName nodeOf(Path folder, Duration timeout) throws IOException {
    Files.createDirectories(folder);
    FileChannel channel =
        FileChannel.open(folder.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    HELD.add(channel);
    try {
      FileLock lock = channel.tryLock();
      if (lock == null) {
        log.atWarning().log(
            "another server of this site runs: native mode waits %d s for it to end", timeout.toSeconds());
        lock = lockWithin(channel, timeout);
      }
      if (lock != null) {
        HELD.add(lock);
        return NodeName.in(folder);
      }
      HELD.remove(channel);
      channel.close();
    } catch (OverlappingFileLockException e) {
      // Another server in this process has the lock, which the system would release if the channel were closed.
    }
    log.atSevere().log(
        "another server of this site runs: native mode cannot use the name of this node, so after an hour without etcd"
            + " it changes no refs until this server is restarted");
    return NodeName.ofProgram();
  }

  /** Returns the lock of a file once no other process has it; null if one still has it at the end. */
  private static FileLock lockWithin(FileChannel channel, Duration timeout) throws IOException {
    long start = System.nanoTime();
    FileLock lock = null;
    while (lock == null && System.nanoTime() - start < timeout.toNanos()) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(SETTLE_MILLIS));
      lock = channel.tryLock();
    }
    return lock;
  }

  @Override
  public boolean has(String project) {
    return stored.has(project);
  }

  @Override
  public BatchCommitter committer(String project, Repository repository) {
    return (view, batch) -> {
      EtcdArbiter.Ahead[] ahead = new EtcdArbiter.Ahead[1];
      try {
        return commit(project, view, batch, one -> ahead[0] = one);
      } catch (NotAgreedException e) {
        if (ahead[0] != null) {
          Sequences.catchUp(repository, view, ahead[0]);
        }
        throw e;
      }
    };
  }

  private Predicate<String> storedOf(String project) {
    return ref -> stored.has(project, ref);
  }

  private BatchResult commit(
      String project, EngineView view, RefBatch batch, Consumer<EtcdArbiter.Ahead> ahead)
      throws IOException {
    for (int attempt = 1; ; attempt++) {
      EtcdArbiter arbiter = new EtcdArbiter(refs, project, storedOf(project), batch.isRename(), intents::begin);
      try {
        return view.commit(batch, arbiter);
      } catch (EngineException e) {
        NotAgreedException why = arbiter.failure();
        if (why != null) {
          log.atInfo().log("an update of %s was refused: %s", project, why.getMessage());
          arbiter.ahead().ifPresent(ahead);
          throw why;
        }
        if (e.kind() != EngineException.Kind.UNDECIDED) {
          throw e;
        }
        // The refs are blocked by the intent of another batch, which no longer holds locks. This batch is not tried
        // again if it leaves an intent of its own, because etcd's answer came too late for the group of batches that
        // the engine wrote together.
        if (attempt == ATTEMPTS_MAX || e.path().isEmpty() || arbiter.leavesIntent()) {
          throw new NotAgreedException(NotAgreedException.Why.NO_ANSWER, e.getMessage(), e);
        }
        settleMet(project, view, Path.of(e.path().get()).getFileName().toString(), e);
      } finally {
        end(project, view, arbiter);
      }
    }
  }

  /**
   * Releases the resources of a batch. An intent that remains is settled in the background, as soon as etcd and the
   * disk allow it.
   */
  private void end(String project, EngineView view, EtcdArbiter arbiter) {
    String id = arbiter.intentId();
    if (id != null) {
      // This comes before the slot is returned, because the next batch that uses the slot may have an intent of the
      // same name.
      intents.end(id);
    }
    arbiter.close();
    if (id != null && arbiter.leavesIntent() && isThere(view, id)) {
      open.putIfAbsent(id, new Open(project, view)); // a view that was opened since is there already
    }
  }

  private static boolean isThere(EngineView view, String id) {
    try {
      return view.globalIntents().stream().anyMatch(intent -> intent.id().equals(id));
    } catch (EngineException e) {
      return true;
    }
  }

  private void settleMet(String project, EngineView view, String id, EngineException met) throws IOException {
    try {
      for (GlobalIntent intent : view.globalIntents()) {
        if (intent.id().equals(id)) {
          intents.settle(project, view, intent, storedOf(project));
        }
      }
    } catch (GlobalRefException e) {
      throw new NotAgreedException(NotAgreedException.Why.NO_ANSWER, met.getMessage() + ": " + e.getMessage(), e);
    }
  }

  /** Leaves the intents of this node to the background, so that readers do not wait for etcd. */
  @Override
  public void opened(String project, EngineView view) throws IOException {
    for (GlobalIntent intent : view.globalIntents()) {
      if (intents.isOfThisNode(intent)) {
        open.put(intent.id(), new Open(project, view)); // an earlier view may be closed
      }
    }
  }

  private void settleOpen() {
    open.forEach(
        (id, one) -> {
          if (!one.isDue()) {
            return;
          }
          try {
            List<GlobalIntent> there =
                one.view.globalIntents().stream()
                    .filter(intent -> intent.id().equals(id))
                    .toList();
            boolean isSettled = true;
            for (GlobalIntent intent : there) {
              isSettled =
                  intents.settle(one.project, one.view, intent, storedOf(one.project))
                      != Outcome.UNDER_WAY;
            }
            if (isSettled) {
              open.remove(id, one);
            }
          } catch (ClosedHandleException e) {
            // The intent is settled when the project is opened again.
            open.remove(id, one);
          } catch (GlobalRefException e) {
            // Tried again soon, because the refs of the intent cannot be updated until etcd answers.
            log.atFine().withCause(e).log("the intent %s of %s is not settled", id, one.project);
          } catch (IOException | RuntimeException | Error e) {
            one.failed();
            if (one.failures >= TOLD_FAILURES) {
              log.atWarning().atMostEvery(1, TimeUnit.MINUTES).log(
                  "%d updates of this node are not settled, so that their refs cannot be updated, for example one of"
                      + " %s, %s: %s", unsettled(), one.project, id, e);
            }
          }
        });
  }

  private long unsettled() {
    return open.values().stream().filter(one -> one.failures > 0).count();
  }

  @Override
  public GlobalSettled settle(String project, EngineView view, boolean isDry, Consumer<String> said) throws IOException {
    int settled = 0;
    int underWay = 0;
    int failed = 0;
    for (GlobalIntent intent : view.globalIntents()) {
      String what =
          "an update of " + intent.refs().size() + " refs, " + intent.refs().getFirst().name() + " the first, by node "
              + intent.mark().split(" ")[0] + " (" + intent.id() + "): ";
      try {
        Optional<String> why = intents.underWay(view, intent);
        if (why.isPresent()) {
          said.accept(what + "is under way: " + why.get());
          underWay++;
        } else if (isDry) {
          boolean isAgreed = intents.isAgreed(project, intent, storedOf(project));
          said.accept(
              what
                  + (isAgreed
                      ? "would be finished, since etcd has it"
                      : "would be dropped, since etcd has it not"));
          settled++;
        } else {
          Outcome outcome = intents.settle(project, view, intent, storedOf(project));
          said.accept(what + outcome.text());
          if (outcome == Outcome.UNDER_WAY) { // it began after the look above
            underWay++;
          } else {
            settled++;
          }
        }
      } catch (IOException | GlobalRefException e) {
        said.accept(what + "NOT settled: " + e.getMessage());
        failed++;
      }
    }
    return new GlobalSettled(settled, underWay, failed);
  }

  @Override
  public void removed(String project) {
    try {
      refs.remove(project);
    } catch (GlobalRefException e) {
      log.atWarning().withCause(e).log(
          "project %s was deleted here, but its refs stay in etcd, where they block refs of a new project of that name", project);
    }
  }

  @Override
  public GlobalCounts counts() {
    Counts counts = refs.counts();
    return new GlobalCounts(
        counts.updates.sum(),
        counts.refused.sum(),
        counts.failed.sum(),
        counts.unknown.sum(),
        // The intent of an update whose outcome is unknown cannot be settled either.
        Math.max(refs.slots().unresolvedCount(), unsettled()));
  }

  @Override
  public void tellTimes(LongConsumer nanos) {
    refs.counts().updateTook = nanos == null ? untold -> {} : nanos;
  }

  @Override
  public void close() {
    settling.shutdownNow();
    refs.close();
  }
}

package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.io.IOException;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.VerifyReport;

/**
 * Compares the engine's memory with the disk, one project after another, as long as Gerrit runs. It blocks no one: a
 * difference counts only if it persists when the ref is read again.
 *
 * <p>A project is compared every {@code refdb.verifyInterval} if it was used since the last time. After each comparison
 * the thread rests {@value #REST} times as long as the comparison took, so that comparisons take about a hundredth of
 * one processor at most; with many projects, each is compared less often.
 *
 * <p>The verifier also reopens projects that refdb could not open, because one that is not used would otherwise count
 * as refused for ever.
 *
 * <p>Stale refs are counted, and up to {@value #LOGGED_MAX} of a comparison are logged by name. Everything that is
 * known of their project is then read again. Stale refs should never occur: if they do, either {@code
 * refdb.trustMillis} is set, or the other trust settings promise more than the file system keeps, or there is a bug.
 */
@Singleton
final class Verifier implements LifecycleListener {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final int REST = 100;
  private static final int LOGGED_MAX = 20;
  private static final Duration STOP_TIMEOUT = Duration.ofSeconds(5);

  /**
   * How long the thread waits if no project is due, and the pause between its attempts to open projects that refdb
   * could not open. If the interval is shorter, that is used instead.
   */
  private static final Duration LOOK = Duration.ofSeconds(10);

  private final RefdbRepositoryManager manager;
  private final Duration interval;
  private final Duration look;
  private final Consumer<String> log;
  private final Consumer<ProjectState> readStats;
  private Thread thread;

  @Inject
  Verifier(RefdbRepositoryManager manager) {
    this(manager, message -> logger.atSevere().log("%s", message));
  }

  Verifier(RefdbRepositoryManager manager, Consumer<String> log) {
    this(manager, log, manager::readStats);
  }

  /** {@code readStats} brings a project's figures up to date. */
  Verifier(RefdbRepositoryManager manager, Consumer<String> log, Consumer<ProjectState> readStats) {
    this.manager = manager;
    this.log = log;
    this.readStats = readStats;
    this.interval = manager.settings().verifyInterval();
    this.look = interval.isPositive() && interval.compareTo(LOOK) < 0 ? interval : LOOK;
  }

  @Override
  public void start() {
    if (manager.isEngineLoaded()) {
      thread = Thread.ofPlatform().daemon().name("refdb-verifier").priority(Thread.MIN_PRIORITY).start(this::run);
    }
  }

  @Override
  public void stop() {
    if (thread == null) {
      return;
    }
    thread.interrupt();
    try {
      thread.join(STOP_TIMEOUT); // a running comparison ends by itself and does no harm
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void run() {
    try {
      while (true) {
        Optional<ProjectState> next = nextOrLog();
        rest(next.isEmpty() ? look : verify(next.get()).multipliedBy(REST));
      }
    } catch (InterruptedException e) {
      // Gerrit is stopping.
    }
  }

  private Optional<ProjectState> nextOrLog() {
    try {
      return next(System.nanoTime());
    } catch (RuntimeException | Error e) { // also an OutOfMemoryError: the thread must not end
      logger.atWarning().withCause(e).atMostEvery(1, TimeUnit.MINUTES).log(
          "refdb cannot tell which project to verify, and tries again soon");
      return Optional.empty();
    }
  }

  /** Waits, for hours after a long comparison, and meanwhile opens projects that refdb could not open. */
  void rest(Duration time) throws InterruptedException {
    for (Duration left = time; left.isPositive(); left = left.minus(look)) {
      retryRefused();
      Thread.sleep(left.compareTo(look) < 0 ? left : look);
    }
  }

  /** Opens each project that refdb could not open and whose pause is over. One that is gone is no longer refused. */
  void retryRefused() {
    for (ProjectState state : manager.states()) {
      Refusal refusal = state.refusal();
      if (refusal != null && refusal.isDue(System.nanoTime())) {
        try {
          manager.openRepository(state.name).close();
        } catch (IOException | RuntimeException | Error e) { // also an OutOfMemoryError: the thread must not end
          logger.atFine().withCause(e).log("refdb cannot open project %s yet", state.name);
        }
      }
    }
  }

  /** Returns the project that is due, was used, and has waited longest. */
  Optional<ProjectState> next(long now) {
    if (!interval.isPositive()) {
      return Optional.empty();
    }
    return manager.states().stream()
        .filter(state -> state.refusal() == null && now - state.staleness.lookedAt() >= interval.toNanos())
        .sorted(Comparator.comparingLong(state -> state.staleness.lookedAt() - now))
        .filter(this::wasUsed)
        .findFirst();
  }

  /** Returns whether a project was used since it was last verified; called lazily, because it queries the engine. */
  private boolean wasUsed(ProjectState state) {
    try {
      readStats.accept(state);
      return state.staleness.wasUsedAt(state.uses(), System.nanoTime());
    } catch (RuntimeException | Error e) {
      state.staleness.skipped(System.nanoTime()); // so that other projects come before it next time
      throw e;
    }
  }

  /** Compares one project, and returns how long that took. */
  Duration verify(ProjectState state) {
    long begun = System.nanoTime();
    try (Repository repository = manager.openRepository(state.name)) {
      state.staleness.skipped(begun);
      if (repository instanceof RefdbRepository ours) {
        VerifyReport found = ours.verify();
        state.staleness.looked(begun, System.nanoTime(), found.differences().size());
        if (!found.differences().isEmpty()) {
          report(state, found.differences());
          ours.flush();
        }
        readStats.accept(state);
        state.staleness.usedUpTo(state.uses()); // the comparison itself does not count as a use
      }
    } catch (IOException | RuntimeException | Error e) { // also an OutOfMemoryError: the thread must not end
      // The project cannot be opened or read, for example because it was deleted.
      logger.atFine().withCause(e).log("refdb cannot verify project %s now", state.name);
      state.staleness.skipped(System.nanoTime());
    }
    return Duration.ofNanos(System.nanoTime() - begun);
  }

  private void report(ProjectState state, List<VerifyReport.Difference> differences) {
    for (VerifyReport.Difference difference : differences.subList(0, Math.min(LOGGED_MAX, differences.size()))) {
      log.accept(
          "refdb was stale in project %s for at most %d s: %s (it is read again now; see core.trustStat)"
              .formatted(state.name, state.staleness.lastStaleAtMost().toSeconds(), difference.line()));
    }
    if (differences.size() > LOGGED_MAX) {
      log.accept(
          "refdb was stale in project %s: %d refs more than those above"
              .formatted(state.name, differences.size() - LOGGED_MAX));
    }
  }
}

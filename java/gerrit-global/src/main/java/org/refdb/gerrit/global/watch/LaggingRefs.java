package org.refdb.gerrit.global.watch;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.refdb.gerrit.global.disk.Compare;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Disks;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/**
 * Refs whose value in etcd has not reached this node's disk yet, as far as the watch has reported them or a comparison
 * has found them. If nodes share a disk, a ref lags for moments, otherwise until it is fetched. Each change is also
 * passed on to refdb's views of the project.
 */
public final class LaggingRefs implements RefWatch.Listener, AutoCloseable {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  /** How many lagging refs a node tracks. */
  public static final int MOST = 10_000;

  private static final long CHECK_MILLIS = 1000;

  /** The pause between two searches for refs that are behind without being tracked. */
  private static final long LOOK_NANOS = TimeUnit.MINUTES.toNanos(10);

  /** Identifies a ref. */
  private record Name(String project, String ref) {}

  private record Wanted(String value, long since) {}

  /**
   * How far this node lags behind.
   *
   * @param refs number of tracked refs that etcd has another value for
   * @param oldest the ref that has lagged the longest; null if none does
   * @param more whether there may be more such refs than are tracked
   */
  public record Report(int refs, String oldest, long millis, boolean more) {}

  private final GlobalRefs refs;
  private final Disks disks;
  private final Consumer<String> views;
  private final int most;
  private final ScheduledExecutorService background =
      Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().daemon().name("refdb-global-behind").factory());

  /** Lagging refs in the order in which they were reported. */
  private final Map<Name, Wanted> wanted = new LinkedHashMap<>();

  /** Projects that may have refs which are behind without being tracked. */
  private final Set<String> incomplete = new HashSet<>();

  private long lookedNanos = System.nanoTime() - LOOK_NANOS;

  /** The project that is being compared; null if none is, or if the project was removed meanwhile. */
  private String compared;

  /** Refs of that project reported meanwhile: the reported values count, not those that the comparison read. */
  private final Set<String> heardMeanwhile = new HashSet<>();

  /** Whether there was no room for a ref reported meanwhile, here or among the lagging refs. */
  private boolean isMoreMeanwhile;

  /**
   * @param views is given the name of each project whose disk is to be looked at again
   * @param most how many lagging refs are tracked; beyond that, only their existence is recorded
   */
  public LaggingRefs(GlobalRefs refs, Disks disks, Consumer<String> views, int most) {
    this.refs = refs;
    this.disks = disks;
    this.views = views;
    this.most = most;
    background.scheduleWithFixedDelay(this::checkOrLog, CHECK_MILLIS, CHECK_MILLIS, TimeUnit.MILLISECONDS);
  }

  @Override
  public void moved(String project, String ref, String value) {
    synchronized (this) {
      boolean isTracked = want(project, ref, value);
      if (project.equals(compared)) {
        isMoreMeanwhile |= !isTracked || heardMeanwhile.size() == most;
        if (!isMoreMeanwhile) {
          heardMeanwhile.add(ref);
        }
      }
    }
    views.accept(project);
  }

  @Override
  public void released(String project, String ref) {
    views.accept(project);
  }

  @Override
  public void releasedUnheard() {
    background.execute(() -> disks.all().forEach(views)); // not on the watch's thread: all repositories are listed
  }

  @Override
  public void removed(String project) {
    synchronized (this) {
      wanted.keySet().removeIf(name -> name.project().equals(project));
      incomplete.remove(project);
      if (project.equals(compared)) {
        compared = null;
      }
    }
    views.accept(project);
  }

  @Override
  public void started() {
    background.execute(this::compareAllOrLog);
  }

  private void compareAllOrLog() {
    try {
      forgetRemoved();
      compareAll();
    } catch (RuntimeException | Error e) {
      log.atWarning().withCause(e).log("changes that this node has missed may not be found before they change again");
    }
  }

  /** Forgets the refs of projects that were removed while nothing was heard. */
  private void forgetRemoved() {
    Set<String> tracked;
    synchronized (this) {
      tracked = wanted.keySet().stream().map(Name::project).collect(Collectors.toSet());
      tracked.addAll(incomplete);
    }
    for (String project : tracked) {
      try {
        if (refs.projects().look(project, refs.deadline()).isEmpty()) {
          removed(project);
        }
      } catch (GlobalRefException e) {
        log.atWarning().withCause(e).log("it is not known whether the project %s was removed", project);
      }
    }
  }

  /** Tracks a ref, and returns whether there is room for it. */
  private synchronized boolean want(String project, String ref, String value) {
    Name name = new Name(project, ref);
    Wanted before = wanted.get(name);
    if (before == null && wanted.size() == most) {
      incomplete.add(project);
      return false;
    }
    // It has lagged since the first change that the disk does not have.
    wanted.put(name, new Wanted(value, before == null ? System.nanoTime() : before.since()));
    return true;
  }

  public synchronized Report report() {
    boolean isMore = !incomplete.isEmpty();
    return wanted.entrySet().stream()
        .findFirst()
        .map(
            first ->
                new Report(
                    wanted.size(), first.getKey().ref() + " of " + first.getKey().project(),
                    TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - first.getValue().since()), isMore))
        .orElse(new Report(0, null, 0, isMore));
  }

  private void checkOrLog() {
    try {
      check();
      lookForMore();
    } catch (RuntimeException | Error e) {
      log.atWarning().withCause(e).log("cannot see how far behind this node is");
    }
  }

  /**
   * Removes the refs whose value the disk has by now, and those that are not stored in etcd. Refs of a project that
   * cannot be opened stay; they are removed once the project is removed in etcd.
   */
  public void check() {
    Map<String, List<Map.Entry<Name, Wanted>>> byProject;
    synchronized (this) {
      byProject =
          wanted.entrySet().stream()
              .map(Map.Entry::copyOf)
              .collect(Collectors.groupingBy(one -> one.getKey().project()));
    }
    byProject.forEach(
        (project, some) -> {
          try (DiskRefs disk = disks.open(project)) {
            for (Map.Entry<Name, Wanted> one : some) {
              String ref = one.getKey().ref();
              if (!disk.isStored(ref) || Compare.agree(disk.value(ref), Optional.of(one.getValue().value()))) {
                forget(one);
              }
            }
          } catch (IOException | GlobalRefException | RuntimeException | Error e) { // others are to be looked at
            log.atFine().withCause(e).log("project %s cannot be looked at", project);
          }
        });
  }

  private synchronized void forget(Map.Entry<Name, Wanted> one) {
    // A ref that was updated again meanwhile stays.
    wanted.remove(one.getKey(), one.getValue());
  }

  /** Looks for refs that were not tracked, as long as there is room for them. */
  private void lookForMore() {
    List<String> some;
    synchronized (this) {
      if (!hasRoom() || incomplete.isEmpty() || System.nanoTime() - lookedNanos < LOOK_NANOS) {
        return;
      }
      some = List.copyOf(incomplete);
    }
    some.stream().takeWhile(project -> hasRoom()).forEach(this::compare);
    lookedNanos = System.nanoTime();
  }

  private synchronized boolean hasRoom() {
    return wanted.size() <= most / 2;
  }

  /** Finds missed changes by comparing all projects. A project that cannot be compared now is compared later. */
  private void compareAll() {
    List<String> projects = disks.all();
    synchronized (this) {
      incomplete.addAll(projects); // each until its comparison has succeeded
    }
    for (String project : projects) {
      views.accept(project);
      compare(project);
    }
  }

  private void compare(String project) {
    List<Compare.Difference> found = new ArrayList<>();
    boolean isComplete = !begin(project); // stays as it is if the comparison fails, which is logged
    try {
      boolean isKnown = refs.projects().look(project, refs.deadline()).isPresent(); // else no ref is behind
      isComplete = !isKnown || findDifferences(project, found);
    } catch (IOException | GlobalRefException | RuntimeException | Error e) { // others are to be compared
      log.atWarning().withCause(e).atMostEvery(1, TimeUnit.MINUTES).log(
          "changes of project %s that this node has missed are looked for later", project);
    }
    end(project, found, isComplete);
  }

  /** Adds the refs that differ to {@code found}. Returns whether these are all. */
  private boolean findDifferences(String project, List<Compare.Difference> found)
      throws IOException, GlobalRefException {
    try (DiskRefs disk = disks.open(project)) {
      return new Compare(refs, disk).run(most, found::add).complete();
    }
  }

  /** Begins to compare a project. Returns whether it may have refs that are behind without being tracked. */
  private synchronized boolean begin(String project) {
    compared = project;
    heardMeanwhile.clear();
    isMoreMeanwhile = false;
    return incomplete.contains(project);
  }

  private synchronized void end(String project, List<Compare.Difference> found, boolean isComplete) {
    if (compared == null) {
      return;
    }
    compared = null;
    if (isMoreMeanwhile || !isComplete) {
      incomplete.add(project);
    } else {
      incomplete.remove(project);
    }
    if (isMoreMeanwhile) {
      return; // of the values that were read, some may be older than those that were reported
    }
    for (Compare.Difference one : found) {
      if (!heardMeanwhile.contains(one.ref())) {
        one.etcd().ifPresent(value -> want(project, one.ref(), value));
      }
    }
  }

  @Override
  public void close() {
    background.shutdownNow();
  }
}

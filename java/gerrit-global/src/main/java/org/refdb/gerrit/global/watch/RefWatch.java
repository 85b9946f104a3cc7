package org.refdb.gerrit.global.watch;

import com.google.common.flogger.FluentLogger;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.common.exception.CompactedException;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.OptionsUtil;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import io.etcd.jetcd.watch.WatchResponse;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.Pages;
import org.refdb.gerrit.global.transaction.Stage;

/**
 * Learns through watches of etcd which refs change. After a lost connection the watches continue where they stopped. If
 * etcd has compacted its history beyond the point where one of them stopped, the listener is told what it may have
 * missed: changes of any refs, or only the ends of their locks. After an {@link Error} it is told that any change may
 * have been missed, because the one at which the error came is not heard of again. The watches require a leader, so
 * that a member that is partitioned from the others ends them.
 */
public final class RefWatch implements AutoCloseable {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  private static final int PROJECTS_AT_ONCE = 1000;

  /** How many responses may be queued. The client's thread waits for room, so etcd's further responses wait too. */
  private static final int QUEUE = 64;

  /** How often a wait for room looks whether anyone still takes. */
  private static final long ROOM_MILLIS = 100;

  private static final long PAUSE_MILLIS_MIN = 100;

  /** Interval of progress requests, which return the current revision of etcd. */
  private static final long PROGRESS_MILLIS = 2000;

  /** Receives the changes. */
  public interface Listener {
    /** A ref has a value in etcd that may not be on every disk yet. */
    void moved(String project, String ref, String value);

    /**
     * The lock of a ref has ended. Unless its lease ran out, the node that held the lock has the final value on its
     * disk.
     */
    void released(String project, String ref);

    /** The locks of any refs may have ended. */
    void releasedUnheard();

    /** A project was removed. */
    void removed(String project);

    /** The watch starts, or starts over: changes may have been missed up to now, and all later ones are reported. */
    void started();
  }

  /** A response of a watch, or the error that ended it. */
  private record News(WatchResponse response, Throwable error, boolean isOfLocks) {}

  /** What the watches have received and nobody has taken yet. */
  private static final class Inbox implements AutoCloseable {
    private final BlockingQueue<News> queue = new ArrayBlockingQueue<>(QUEUE);
    private volatile boolean isClosed;

    private Watch.Listener listener(boolean isOfLocks) {
      return Watch.listener(
          response -> put(new News(response, null, isOfLocks)), error -> put(new News(null, error, isOfLocks)));
    }

    /** Waits for room until this is closed. */
    private void put(News news) {
      try {
        while (!isClosed && !queue.offer(news, ROOM_MILLIS, TimeUnit.MILLISECONDS)) {}
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public void close() {
      isClosed = true;
    }
  }

  private final Etcd etcd;
  private final Keys keys;
  private final Listener listener;
  private final Map<String, String> projects = new ConcurrentHashMap<>();
  private final AtomicLong restarts = new AtomicLong();
  private final Thread thread;
  private volatile long heardUpTo;
  private volatile long heardAt = System.nanoTime();
  private volatile boolean isOpen = true;

  /** Revision of the last change that each watch has delivered, or after which it starts. */
  private long valuesAt;
  private long locksAt;
  private volatile boolean isStarted;

  public RefWatch(Etcd etcd, Keys keys, Listener listener) {
    this.etcd = etcd;
    this.keys = keys;
    this.listener = listener;
    thread = Thread.ofPlatform().daemon().name("refdb-global-watch").start(this::run);
  }

  /** How many revisions etcd is known to be ahead of the changes received here. */
  public long lag() {
    return Math.max(0, etcd.revision() - heardUpTo);
  }

  /** Milliseconds since the last response. */
  long silentMillis() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - heardAt);
  }

  /** Returns whether each change from now on is reported. */
  public boolean hasStarted() {
    return isStarted;
  }

  /** How often the watch had to start over. */
  public long restarts() {
    return restarts.get();
  }

  private void run() {
    long pause = PAUSE_MILLIS_MIN;
    while (isOpen) {
      long heard = heardAt;
      try {
        if (!isStarted) {
          begin();
        }
        watch();
      } catch (GlobalRefException | RuntimeException e) {
        log.atWarning().log("cannot watch other nodes' updates, tries again: %s", e.getMessage());
      } catch (Error e) { // also an OutOfMemoryError: the thread must not end
        log.atWarning().withCause(e).log("a change may have been missed: the watch starts over");
        startOver();
      } catch (InterruptedException e) {
        return;
      }
      pause = heardAt == heard ? pause : PAUSE_MILLIS_MIN;
      try {
        Thread.sleep(pause);
      } catch (InterruptedException e) {
        return;
      }
      pause = Math.min(2 * pause, etcd.settings().requestTimeout().toMillis());
    }
  }

  /**
   * Fixes the revision from which changes are reported, and only then lets the listener look for those that it has
   * missed: in the other order, a change between the look and that revision would be lost.
   */
  private void begin() throws GlobalRefException {
    readProjects();
    listener.started();
    isStarted = true;
  }

  /** Reads which project each generation belongs to. The watch reports what changes meanwhile. */
  private void readProjects() throws GlobalRefException {
    Pages all = new Pages(etcd, keys.allProjects(), PROJECTS_AT_ONCE);
    for (Optional<KeyValue> project = all.next(); project.isPresent(); project = all.next()) {
      know(project.get());
    }
    valuesAt = all.firstRevision();
    locksAt = all.firstRevision();
  }

  private void know(KeyValue project) throws GlobalRefException {
    projects.put(Generation.parse(Etcd.text(project)).id(), Keys.rest(project.getKey(), keys.allProjects()));
  }

  private void forget(String project) {
    projects.values().remove(project);
    listener.removed(project);
  }

  /** Watches until an error ends it or this object is closed. */
  private void watch() throws InterruptedException, GlobalRefException {
    Inbox inbox = new Inbox();
    Watch client = etcd.client().getWatchClient();
    // Locks have a watch of their own, because only their deletion matters. The keys of projects and of values are
    // adjacent, so one watch covers both.
    WatchOption values = options(valuesAt).withRange(OptionsUtil.prefixEndOf(keys.allValues())).build();
    WatchOption locks = options(locksAt).withRange(OptionsUtil.prefixEndOf(keys.allLocks())).withNoPut(true).build();
    // The inbox is closed before the watches, because the client keeps its lock while it waits to put an error.
    try (Watch.Watcher first = client.watch(keys.allProjects(), values, inbox.listener(false));
        Watch.Watcher second = client.watch(keys.allLocks(), locks, inbox.listener(true));
        inbox) {
      long asked = System.nanoTime();
      while (isOpen && !first.isClosed() && !second.isClosed()) {
        News news = inbox.queue.poll(PROGRESS_MILLIS / 4, TimeUnit.MILLISECONDS);
        if (news != null && news.error() != null) {
          ended(news);
          return;
        }
        if (news != null) {
          take(news.response());
        }
        if (System.nanoTime() - asked > TimeUnit.MILLISECONDS.toNanos(PROGRESS_MILLIS)) {
          client.requestProgress();
          asked = System.nanoTime();
        }
      }
    }
  }

  private static WatchOption.Builder options(long heard) {
    return WatchOption.builder().withRevision(heard + 1).withRequireLeader(true).withProgressNotify(true);
  }

  private void ended(News news) throws GlobalRefException {
    if (!(news.error() instanceof CompactedException)) {
      log.atInfo().log("etcd ended the watch, which restarts: %s", news.error().getMessage());
    } else if (news.isOfLocks()) {
      // Nodes may lock nothing for as long as etcd keeps its history, as in native mode, so this says little.
      locksAt = etcd.read(keys.allLocks(), GetOption.DEFAULT, Deadline.of(etcd.settings())).getHeader().getRevision();
      listener.releasedUnheard();
    } else {
      log.atWarning().log("etcd has compacted updates that this node has not received: the watch starts over");
      startOver();
    }
  }

  private void startOver() {
    restarts.incrementAndGet();
    projects.clear();
    isStarted = false;
  }

  private void take(WatchResponse response) {
    heardAt = System.nanoTime();
    for (WatchEvent event : response.getEvents()) {
      try {
        take(event);
      } catch (GlobalRefException | RuntimeException e) {
        log.atWarning().withCause(e).log("a change in etcd is not understood");
      }
    }
    // Used for metrics only, because an etcd before 3.4.25 may report progress before it delivers a change.
    heardUpTo = Math.max(heardUpTo, response.getHeader().getRevision());
  }

  private void take(WatchEvent event) throws GlobalRefException {
    KeyValue now = event.getKeyValue();
    ByteSequence key = now.getKey();
    if (key.startsWith(keys.allLocks())) {
      locksAt = now.getModRevision();
      take(Keys.rest(key, keys.allLocks()), null);
      return;
    }
    valuesAt = now.getModRevision();
    if (event.getEventType() != WatchEvent.EventType.PUT) {
      if (key.startsWith(keys.allProjects())) {
        forget(Keys.rest(key, keys.allProjects()));
      }
      return;
    }
    if (key.startsWith(keys.allProjects())) {
      know(now);
    } else if (key.startsWith(keys.allValues()) && !Stage.is(now)) {
      // A staged ref is reported when its stage is replaced by a value.
      take(Keys.rest(key, keys.allValues()), Etcd.text(now));
    }
  }

  private void take(String generationAndRef, String value) {
    int slash = generationAndRef.indexOf('/');
    String project = projects.get(generationAndRef.substring(0, slash));
    String ref = generationAndRef.substring(slash + 1);
    if (project == null) {
      log.atFine().log("a value of a project that is gone: %s", generationAndRef);
    } else if (value == null) {
      listener.released(project, ref);
    } else {
      listener.moved(project, ref, value);
    }
  }

  @Override
  public void close() {
    isOpen = false;
    thread.interrupt();
  }
}

package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.refdb.gerrit.cache.shared.EntryScan;
import org.refdb.gerrit.cache.shared.Peers;
import org.refdb.gerrit.cache.shared.SharedCaches;

/**
 * A copy of what servers share into this server's caches, made in a thread of its own, at a limited rate.
 */
public final class Warming {
  /** The most entries a second that can be asked for. */
  public static final int RATE_MAX = 100_000;

  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final int BATCH = 16;
  private static final long BATCH_BYTES_MAX = 16 << 20;

  /** The pause after each list of names, so that the walk leaves the server of the shared cache time for others. */
  private static final long SCAN_PAUSE_MILLIS = 5;

  /** The pause between two renewals of the request to another server. After each, that server's report is read. */
  private static final long ASK_PAUSE_MILLIS = 500;
  private static final long SILENCE_NANOS_MAX = TimeUnit.SECONDS.toNanos(10);

  private final SharedCaches shared;
  private final String peer;
  private final String cache;
  private final int rate;
  private final Map<String, WarmTarget<?, ?>> targets = new HashMap<>();
  private final Thread thread = new Thread(this::run, "refdb-shared-warm");
  private final long begunNanos = System.nanoTime();
  private long startNanos;
  private volatile boolean isStopped;
  private volatile Progress progress;

  /** The state of a copy. */
  public enum State {
    /** The copy goes on. */
    RUNNING,
    /** The copy has seen the names of all entries that it was to copy. */
    DONE,
    /** An administrator stopped the copy, or Gerrit ended. */
    STOPPED,
    /**
     * The copy failed, for example because the server of the shared cache did, or because the server that was asked to
     * offer its values gave up or did not answer. What was stored until then stays.
     */
    FAILED
  }

  /**
   * The progress of a copy.
   *
   * @param state whether the copy goes on, or how it ended
   * @param from the server that was asked to offer its values first; null if none
   * @param offered values that {@code from} has offered to the shared cache
   * @param cache the cache; null for all
   * @param entriesPerSecond the limit of the rate
   * @param looked names of entries that the copy has looked at
   * @param stored values that are stored here now
   * @param present values that were here already
   * @param unusable all other entries, for example of caches that are not copied, of other versions or generations,
   *     expired or damaged ones, and those for which there is no room
   * @param seconds how long the copy has taken
   * @param failure why the copy failed; null if it did not
   */
  public record Progress(
      State state,
      String from,
      long offered,
      String cache,
      int entriesPerSecond,
      long looked,
      long stored,
      long present,
      long unusable,
      long seconds,
      String failure) {
    /** Returns one line of text. */
    public String text() {
      return "%s, %s: %s%d entries looked at in %d s, at most %d a second; %d stored, %d were here, %d not usable%s"
          .formatted(
              cache == null ? "all shared caches" : cache,
              state.name().toLowerCase(Locale.ROOT),
              from == null ? "" : offered + " values offered by " + from + ", ",
              looked,
              seconds,
              entriesPerSecond,
              stored,
              present,
              unusable,
              failure == null ? "" : ": " + failure);
    }

    private Progress plus(WarmTarget.Warmed warmed, int looked, long seconds) {
      return new Progress(
          state,
          from,
          offered,
          cache,
          entriesPerSecond,
          this.looked + looked,
          stored + warmed.stored(),
          present + warmed.present(),
          unusable + looked - warmed.stored() - warmed.present(),
          seconds,
          failure);
    }

    private Progress hasHeard(long of, long atSeconds) {
      return new Progress(
          state, from, of, cache, entriesPerSecond, looked, stored, present, unusable, atSeconds, failure);
    }

    private Progress ended(State how, long atSeconds, String why) {
      return new Progress(how, from, offered, cache, entriesPerSecond, looked, stored, present, unusable, atSeconds, why);
    }
  }

  /**
   * Creates a copy that has not begun.
   *
   * @param peer the server that is asked to offer its values first; null for none
   * @param cache the cache; null for all
   * @param rate the most entries a second, from 1 to {@value #RATE_MAX}
   */
  Warming(SharedCaches shared, List<? extends WarmTarget<?, ?>> all, String peer, String cache, int rate) {
    this.shared = shared;
    this.peer = peer;
    this.cache = cache;
    this.rate = rate;
    all.forEach(target -> targets.put(target.name(), target));
    progress = new Progress(State.RUNNING, peer, 0, cache, rate, 0, 0, 0, 0, 0, null);
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Returns the progress of the copy. */
  public Progress progress() {
    return progress;
  }

  /** Ends the copy, within a few seconds, if it has not ended. What was stored stays. */
  public void stop() {
    isStopped = true;
    thread.interrupt();
  }

  private void run() {
    try {
      if (peer != null) {
        awaitPeer();
      }
      startNanos = System.nanoTime();
      EntryScan scan = shared.scan(cache);
      for (List<EntryScan.Name> names = scan.next(); names != null && !hasEnded(); names = scan.next()) {
        for (int from = 0; from < names.size() && !hasEnded(); from += batch()) {
          copy(names.subList(from, Math.min(from + batch(), names.size())));
        }
        TimeUnit.MILLISECONDS.sleep(SCAN_PAUSE_MILLIS);
      }
      progress = progress.ended(hasEnded() ? State.STOPPED : State.DONE, seconds(), null);
    } catch (InterruptedException e) {
      progress = progress.ended(State.STOPPED, seconds(), null);
    } catch (IOException | RuntimeException | Error e) { // also an OutOfMemoryError: administrators must learn of it
      boolean isMeant = hasEnded();
      progress = progress.ended(isMeant ? State.STOPPED : State.FAILED, seconds(), isMeant ? null : e.getMessage());
    }
    logger.atInfo().log("Copied from the shared cache: %s", progress.text());
  }

  /** Has the other server offer its values, and waits until it has. */
  private void awaitPeer() throws IOException, InterruptedException {
    Peers.Request request = new Peers.Request(UUID.randomUUID().toString(), rate, cache);
    long heardNanos = System.nanoTime();
    try {
      while (!hasEnded()) {
        shared.peers().ask(peer, request);
        Peers.Report report = shared.peers().reportOf(peer, request);
        if (report != null) {
          heardNanos = System.nanoTime();
          progress = progress.hasHeard(report.offered(), seconds());
          if (report.phase() == Peers.Phase.DONE) {
            return;
          }
        }
        if (report != null && report.phase() == Peers.Phase.FAILED) {
          throw new IOException(peer + " has given up, its error_log may say why");
        }
        if (System.nanoTime() - heardNanos > SILENCE_NANOS_MAX) {
          throw new IOException("no server with gerrit.instanceId " + peer + " shares these caches, or it has no answer");
        }
        TimeUnit.MILLISECONDS.sleep(ASK_PAUSE_MILLIS);
      }
    } finally {
      Thread.interrupted(); // stop() has been noted, and the request must not go on
      shared.peers().withdraw(peer, request);
    }
  }

  /** Returns whether nothing more is to be copied, because somebody has stopped the copy or Gerrit ends. */
  private boolean hasEnded() {
    return isStopped || shared.isClosed();
  }

  /** Returns how many values are read at once: fewer where values may be large, because all are in memory together. */
  private int batch() {
    return Math.clamp(BATCH_BYTES_MAX / shared.valueBytesMax(), 1, BATCH);
  }

  private void copy(List<EntryScan.Name> names) throws IOException, InterruptedException {
    Map<String, List<byte[]>> ofCaches = new HashMap<>();
    names.forEach(name -> ofCaches.computeIfAbsent(name.cache(), any -> new ArrayList<>()).add(name.bytes()));
    for (Map.Entry<String, List<byte[]>> each : ofCaches.entrySet()) {
      WarmTarget<?, ?> target = targets.get(each.getKey());
      WarmTarget.Warmed warmed = target == null ? WarmTarget.Warmed.NOTHING : target.warm(each.getValue());
      progress = progress.plus(warmed, each.getValue().size(), seconds());
    }
    long due = startNanos + TimeUnit.SECONDS.toNanos(progress.looked()) / rate;
    TimeUnit.NANOSECONDS.sleep(due - System.nanoTime());
  }

  private long seconds() {
    return TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begunNanos);
  }
}

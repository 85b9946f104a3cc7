package org.refdb.gerrit.cache;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.refdb.gerrit.cache.shared.Peers;
import org.refdb.gerrit.cache.shared.SharedCaches;

/**
 * Offers the values of this server to the shared cache because another server has asked for them, in a thread of its
 * own and at a limited rate, and reports its progress to that server.
 */
final class Offering {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final long REPORT_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long PAUSE_MILLIS = 2;

  /**
   * The number of values that may wait to be stored before this adds another one, so that the queue has room for what
   * requests compute.
   */
  private static final int WAITING_MAX = 64;

  /** If values of so many bytes or more wait to be stored, this adds none. */
  private static final long WAITING_BYTES_MAX = 4 << 20;

  private final SharedCaches shared;
  private final List<? extends WarmSource<?, ?>> sources;
  private final Peers.Request request;
  private final Thread thread = new Thread(this::run, "refdb-shared-offering");
  private final long startNanos = System.nanoTime();
  private volatile boolean isStopped;
  private long looked;
  private long offered;
  private long reportedNanos;

  Offering(SharedCaches shared, List<? extends WarmSource<?, ?>> sources, Peers.Request request) {
    this.shared = shared;
    this.sources = sources;
    this.request = request;
    thread.setDaemon(true);
  }

  Peers.Request request() {
    return request;
  }

  void start() {
    thread.start();
  }

  /** Makes the offering end soon. */
  void stop() {
    isStopped = true;
    thread.interrupt();
  }

  private void run() {
    Peers.Phase end;
    try {
      report(Peers.Phase.RUNNING);
      for (WarmSource<?, ?> source : sources) {
        boolean isWanted = request.cache() == null || request.cache().equals(source.name());
        if (isWanted && source.isShared() && !hasEnded()) {
          source.offerAll(this::goesOn);
        }
      }
      while (shared.waiting().entries() > 0 && !hasEnded()) {
        goesOn(0);
      }
      end = hasEnded() ? Peers.Phase.FAILED : Peers.Phase.DONE;
    } catch (RuntimeException | Error e) { // also an OutOfMemoryError: the server that asked must learn of it
      logger.atWarning().withCause(e).log("Cannot offer the values of this server to another one");
      end = Peers.Phase.FAILED;
    }
    logger.atInfo().log("Offered %d of %d values to the server that asked: %s", offered, looked, end);
    report(end);
  }

  private boolean hasEnded() {
    return isStopped || !shared.isInUse() || shared.isClosed();
  }

  private boolean goesOn(boolean wasOffered) {
    looked++;
    offered += wasOffered ? 1 : 0;
    return goesOn(WAITING_MAX);
  }

  /** Waits until it is time for the next value. Returns false if no more may be offered. */
  private boolean goesOn(int waitingMax) {
    long due = startNanos + TimeUnit.SECONDS.toNanos(looked) / request.entriesPerSecond();
    while (!hasEnded()) {
      SharedCaches.Waiting waiting = shared.waiting();
      boolean hasRoom = waiting.entries() <= waitingMax && waiting.bytes() < WAITING_BYTES_MAX;
      if (hasRoom && System.nanoTime() - due >= 0) {
        reportAtTimes();
        return true;
      }
      try {
        Thread.sleep(PAUSE_MILLIS);
      } catch (InterruptedException e) {
        isStopped = true;
      }
      reportAtTimes();
    }
    return false;
  }

  private void reportAtTimes() {
    if (System.nanoTime() - reportedNanos >= REPORT_NANOS) {
      report(Peers.Phase.RUNNING);
    }
  }

  private void report(Peers.Phase phase) {
    reportedNanos = System.nanoTime();
    try {
      shared.peers().report(new Peers.Report(request.id(), phase, offered));
    } catch (IOException e) {
      logger.atFine().withCause(e).log("Cannot report to the server that asked");
    }
  }
}

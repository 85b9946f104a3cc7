package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;

import com.google.common.flogger.FluentLogger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * Stores and deletes entries on the server from a thread of its own. A full queue drops its oldest changes, so offering
 * never waits.
 */
final class Offers implements AutoCloseable {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final long ANSWER_NANOS_MAX = TimeUnit.SECONDS.toNanos(1);
  private static final long CLOSE_MILLIS_MAX = 2_000;

  private final Client client;
  private final Breaker breaker;
  private final EntryFormat format;
  private final SharedSettings settings;
  private final Deque<Offer> queue = new ArrayDeque<>();
  private final Thread thread = new Thread(this::run, "refdb-shared-offers");
  private long queuedBytes;
  private boolean isClosed;

  /**
   * A change of one entry.
   *
   * @param value the value to store; null to delete the entry
   * @param isSpare whether an entry that the server has stays as it is
   * @param lease the place whose lease is ended; null for an entry of the cache
   * @param whenLost what is done if the server does not make the change; null for nothing
   */
  record Offer(
      Counts counts,
      byte[] name,
      byte[] key,
      byte[] value,
      long createdMillis,
      boolean isSpare,
      SharedTier.Place lease,
      Runnable whenLost) {
    private static final byte[] NOTHING = {};

    static Offer deletion(Counts counts, byte[] name, Runnable whenLost) {
      return new Offer(counts, name, NOTHING, null, 0, false, null, whenLost);
    }

    static Offer leaseEnd(Counts counts, SharedTier.Place place) {
      return new Offer(counts, place.lease(), NOTHING, null, 0, false, place, null);
    }

    private void lost(Counts.Event how) {
      counts.one(how);
      if (whenLost != null) {
        whenLost.run();
      }
    }

    long bytes() {
      return EntryFormat.size(name.length + key.length, value == null ? 0 : value.length);
    }
  }

  Offers(Client client, Breaker breaker, EntryFormat format, SharedSettings settings) {
    this.client = client;
    this.breaker = breaker;
    this.format = format;
    this.settings = settings;
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  synchronized void add(Offer offer) {
    if (isClosed) {
      offer.lost(Counts.Event.DROPPED);
      return;
    }
    queue.add(offer);
    queuedBytes += offer.bytes();
    while (queue.size() > settings.queueEntriesMax() || queuedBytes > settings.queueBytesMax()) {
      take().lost(Counts.Event.DROPPED);
    }
    notifyAll();
  }

  private Offer take() {
    Offer oldest = queue.remove();
    queuedBytes -= oldest.bytes();
    return oldest;
  }

  private void run() {
    try {
      while (true) {
        Offer offer = next();
        try {
          send(offer);
        } catch (RuntimeException | Error e) { // also an OutOfMemoryError: without this thread, nothing is deleted
          logger.atWarning().withCause(e).atMostEvery(1, TimeUnit.MINUTES).log("A change of the shared cache is lost");
        }
      }
    } catch (InterruptedException e) {
      // Interrupted by close(), or nothing is left after close().
    }
  }

  private synchronized Offer next() throws InterruptedException {
    while (queue.isEmpty()) {
      if (isClosed) {
        throw new InterruptedException();
      }
      wait();
    }
    return take();
  }

  synchronized SharedCaches.Waiting waiting(long answerBytes) {
    return new SharedCaches.Waiting(queue.size(), queuedBytes, answerBytes);
  }

  private void send(Offer offer) throws InterruptedException {
    if (breaker.isOpen()) {
      offer.lost(Counts.Event.DROPPED);
      return;
    }
    try {
      byte[] entry =
          offer.value == null ? null : format.encode(offer.name, offer.key, offer.value, offer.createdMillis);
      boolean isDone = isDue(offer) && store(offer, entry) != null;
      if (entry != null && isDone) {
        offer.counts.one(Counts.Event.STORED);
        offer.counts.add(Counts.Event.BYTES_STORED, entry.length);
      }
    } catch (JedisDataException e) {
      client.refused(offer.name, e);
      notStored(offer, e);
    } catch (JedisConnectionException | TimeoutException e) {
      notStored(offer, e);
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
    } catch (RuntimeException | Error e) {
      logger.atWarning().withCause(e).atMostEvery(1, TimeUnit.MINUTES).log("Cannot offer a value to the shared cache");
      notStored(offer, e);
    }
  }

  /**
   * Returns whether the change is still to be made. An offer with a lease is the ending of that lease; it is made only
   * while the lease lasts and is this node's, because another node may take it once it has run out. If it runs out
   * between this check and the deletion, the deletion can end the other node's lease, and then a third node may do the
   * same work again.
   */
  private boolean isDue(Offer offer) throws TimeoutException {
    if (offer.lease == null) {
      return true;
    }
    if (System.nanoTime() - offer.lease.leaseEndsNanos >= 0) {
      return false;
    }
    try (Call call = client.get(new byte[][] {offer.name})[0]) {
      return call.await(ANSWER_NANOS_MAX) instanceof byte[] token && Arrays.equals(token, offer.lease.leaseToken);
    }
  }

  /** Returns the server's answer, which is null if the value is spare and the server has an entry already. */
  private Object store(Offer offer, byte[] entry) throws TimeoutException {
    try (Call call = client.send(command(offer, entry), offer.name)) {
      return call.await(ANSWER_NANOS_MAX);
    }
  }

  private static void notStored(Offer offer, Throwable cause) {
    logger.atFine().log("The shared cache does not take a value: %s", cause.getMessage());
    offer.lost(Counts.Event.NOT_STORED);
  }

  private CommandArguments command(Offer offer, byte[] entry) {
    if (entry == null) {
      return new CommandArguments(Protocol.Command.DEL).key(offer.name);
    }
    CommandArguments set =
        new CommandArguments(Protocol.Command.SET)
            .key(offer.name)
            .add(entry)
            .add("PX".getBytes(US_ASCII))
            .add(Long.toString(settings.ttl().toMillis()).getBytes(US_ASCII));
    if (offer.isSpare) {
      set.add("NX".getBytes(US_ASCII));
    }
    return set;
  }

  /**
   * Makes the deletions that wait, for as long as the server answers and for some seconds at most, and drops all other
   * changes. When this returns, every deletion is made or lost, unless the calling thread was interrupted.
   */
  @Override
  public void close() {
    List<Offer> dropped = new ArrayList<>();
    synchronized (this) {
      isClosed = true;
      queue.removeIf(offer -> offer.value != null && dropped.add(offer));
      notifyAll();
    }
    dropped.forEach(offer -> offer.lost(Counts.Event.DROPPED));
    try {
      thread.join(CLOSE_MILLIS_MAX);
      thread.interrupt();
      thread.join(CLOSE_MILLIS_MAX);
    } catch (InterruptedException e) {
      thread.interrupt();
      Thread.currentThread().interrupt();
    }
    synchronized (this) {
      while (!queue.isEmpty()) {
        take().lost(Counts.Event.DROPPED);
      }
      queuedBytes = 0;
    }
  }
}

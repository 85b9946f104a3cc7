package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * Lets one node compute a value while the others wait for it, in a cache whose loads take long. A lease is an entry on
 * the server, which ends by itself. It only saves work: a node that cannot tell who has it, or has waited long enough,
 * computes the value itself.
 */
final class Leases {
  /** Where loads take less than this, two of them cost less than a wait. */
  static final long MEAN_NANOS_MIN = TimeUnit.MILLISECONDS.toNanos(100);

  /** No request waits longer, however long the loads take. */
  private static final long WAIT_NANOS_MAX = TimeUnit.SECONDS.toNanos(5);

  /** A lease lasts for so many average loads, because about half of all loads take longer than the average. */
  private static final int LEASE_MEANS = 2;

  /** How many of the last loads the average is of, and how many there must be. */
  private static final int RECENT = 16;
  private static final int LOADS_MIN = 4;

  /** How many times a waiting node looks for the value during an average load, with pauses within these limits. */
  private static final int LOOKS = 20;
  private static final long PAUSE_NANOS_MIN = TimeUnit.MILLISECONDS.toNanos(5);
  private static final long PAUSE_NANOS_MAX = TimeUnit.MILLISECONDS.toNanos(100);

  private final SharedCaches caches;
  private final Counts counts;
  private final long[] recent = new long[RECENT];
  private long loads;

  private enum Holder {
    THIS,
    ANOTHER,
    UNKNOWN
  }

  Leases(SharedCaches caches, Counts counts) {
    this.caches = caches;
    this.counts = counts;
  }

  /** Notes how long a load took. */
  synchronized void loaded(long nanos) {
    recent[(int) (loads++ % RECENT)] = nanos;
  }

  /**
   * Returns how long the last loads took on average, in nanoseconds, without the longest of them, which may have been a
   * pause of the machine; 0 if there were too few.
   */
  synchronized long meanNanos() {
    int known = (int) Math.min(loads, RECENT);
    long sum = 0;
    long longest = 0;
    for (int i = 0; i < known; i++) {
      sum += recent[i];
      longest = Math.max(longest, recent[i]);
    }
    return known < LOADS_MIN ? 0 : (sum - longest) / (known - 1);
  }

  /**
   * Takes the lease of a value if loads take long, or waits while another node has it, for no longer than a load takes
   * on average, and 5 s at most. Returns the value if that node has stored it meanwhile; else the caller computes it.
   *
   * @param missing the answer that there is no value
   * @param look asks for the value again
   */
  SharedTier.Answer await(SharedTier.Answer missing, Supplier<SharedTier.Answer> look) {
    long mean = meanNanos();
    if (mean < MEAN_NANOS_MIN) {
      return missing;
    }
    long end = System.nanoTime() + Math.min(mean, WAIT_NANOS_MAX);
    long pause = Math.clamp(mean / LOOKS, PAUSE_NANOS_MIN, PAUSE_NANOS_MAX);
    SharedTier.Answer answer = missing;
    for (boolean hasWaited = false; answer.value() == null && answer.place() != null; hasWaited = true) {
      Holder holder = take(answer.place(), mean * LEASE_MEANS);
      if (holder == Holder.THIS && hasWaited) {
        SharedTier.Answer last = look.get(); // a value may have come before the other's lease ended
        return last.value() != null ? last : answer;
      }
      if (holder != Holder.ANOTHER) {
        return answer;
      }
      if (!hasWaited) {
        counts.one(Counts.Event.WAITED);
      }
      if (!pause(Math.min(pause, end - System.nanoTime()))) {
        return answer;
      }
      answer = look.get();
    }
    return answer;
  }

  /**
   * Sleeps. Returns false, so that the caller goes on without a value, if no time is left or the thread is interrupted.
   */
  private static boolean pause(long nanos) {
    if (nanos <= 0) {
      return false;
    }
    try {
      TimeUnit.NANOSECONDS.sleep(nanos);
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private Holder take(SharedTier.Place place, long nanos) {
    long wait = Math.min(caches.patience().nanos(), caches.budget().left());
    if (wait <= 0 || caches.breaker().isOpen()) {
      return Holder.UNKNOWN;
    }
    byte[] token = UUID.randomUUID().toString().getBytes(US_ASCII);
    CommandArguments set =
        new CommandArguments(Protocol.Command.SET)
            .key(place.lease())
            .add(token)
            .add("NX".getBytes(US_ASCII))
            .add("PX".getBytes(US_ASCII))
            .add(Long.toString(TimeUnit.NANOSECONDS.toMillis(nanos)).getBytes(US_ASCII));
    long start = System.nanoTime();
    try (Call call = caches.client().send(set, place.lease())) {
      boolean isTaken = call.await(wait) != null;
      if (isTaken) {
        place.leaseEndsNanos = start + nanos;
        place.leaseToken = token;
      }
      return isTaken ? Holder.THIS : Holder.ANOTHER;
    } catch (JedisDataException e) {
      caches.client().refused(place.lease(), e);
      return Holder.UNKNOWN;
    } catch (TimeoutException | RuntimeException e) {
      return Holder.UNKNOWN; // the breaker learns of a failure from the look-ups
    } finally {
      caches.budget().waited(System.nanoTime() - start);
    }
  }
}

package org.refdb.gerrit.cache.shared;

import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;

/** What happened to the look-ups and offers of one cache, counted since the start. */
public final class Counts {
  /** Something that is counted. */
  public enum Event {
    /** Look-ups that found an intact value, which may still be too old or be refused for its content. */
    HITS,
    /** Look-ups to which the server answered that it has no value. */
    MISSES,
    /** Look-ups that waited while another node computed the value. */
    WAITED,
    /** Look-ups that left before the answer, except those that {@link #OUT_OF_BUDGET} counts. */
    LATE,
    /**
     * Look-ups that did not ask, because the server fails or is late, because the cache's generation (a number that each
     * flush raises) is not known to be current, or because the thread is interrupted.
     */
    NOT_ASKED,
    /** Look-ups that did not ask, or left before the answer, because their thread has waited enough. */
    OUT_OF_BUDGET,
    /**
     * Look-ups that the server refused, whose connection failed or was still being made, or whose answer was dropped
     * because too many answers waited to be taken.
     */
    FAILED,
    /** Values that were refused because they are damaged, forged, moved or cut. */
    REFUSED_BAD,
    /** Values that were refused because they were sealed with a key that this node does not have. */
    REFUSED_KEY,
    /** Values that were refused because they cannot, or must not, be deserialised. */
    REFUSED_CONTENT,
    /** Values that were stored on the server. */
    STORED,
    /** Values that were loaded or put, and not offered because they are larger than the limit. */
    TOO_LARGE,
    /** Values that were loaded or put, and not offered because they are the result of a timeout or an error. */
    NEGATIVE,
    /**
     * Values and deletions that were dropped, because too many were waiting, the server fails or is late, or this node
     * stops.
     */
    DROPPED,
    /** Values and deletions that the server did not take. */
    NOT_STORED,
    /** Bytes of the entries that look-ups received. */
    BYTES_RECEIVED,
    /** Bytes of the entries that were stored. */
    BYTES_STORED;

    /** Returns the name in metrics and in JSON. */
    public String label() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private final Map<Event, LongAdder> counts = new EnumMap<>(Event.class);

  Counts() {
    for (Event event : Event.values()) {
      counts.put(event, new LongAdder());
    }
  }

  void add(Event event, long number) {
    counts.get(event).add(number);
  }

  void one(Event event) {
    add(event, 1);
  }

  /** Returns how often something happened, or how many bytes there were. */
  public long of(Event event) {
    return counts.get(event).sum();
  }
}

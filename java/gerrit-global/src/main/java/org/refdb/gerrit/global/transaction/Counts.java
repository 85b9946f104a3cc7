package org.refdb.gerrit.global.transaction;

import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;

/** Counters of the updates and locks in etcd that this process has requested. */
public final class Counts {
  public final LongAdder updates = new LongAdder();
  public final LongAdder refused = new LongAdder();
  public final LongAdder failed = new LongAdder();
  public final LongAdder unknown = new LongAdder();
  public final LongAdder locks = new LongAdder();
  public final LongAdder locksRefused = new LongAdder();

  /** Receives the duration of each update in nanoseconds. */
  public volatile LongConsumer updateTook = nanos -> {};
}

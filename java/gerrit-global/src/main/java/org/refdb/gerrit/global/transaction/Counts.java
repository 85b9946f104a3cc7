package org.refdb.gerrit.global.transaction;

import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;

/** What this node has asked of etcd since it started. */
public final class Counts {
  public final LongAdder updates = new LongAdder();
  public final LongAdder refused = new LongAdder();
  public final LongAdder failed = new LongAdder();
  public final LongAdder unknown = new LongAdder();
  public final LongAdder locks = new LongAdder();
  public final LongAdder locksRefused = new LongAdder();

  /** Is told how many nanoseconds each update took. */
  public volatile LongConsumer updateTook = nanos -> {};
}

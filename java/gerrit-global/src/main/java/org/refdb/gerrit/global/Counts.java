package org.refdb.gerrit.global;

import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;

/** What this node has asked of etcd since it started. */
final class Counts {
  final LongAdder updates = new LongAdder();
  final LongAdder refused = new LongAdder();
  final LongAdder failed = new LongAdder();
  final LongAdder unknown = new LongAdder();
  final LongAdder locks = new LongAdder();
  final LongAdder locksRefused = new LongAdder();

  /** Is told how many nanoseconds each update took. */
  volatile LongConsumer updateTook = nanos -> {};
}

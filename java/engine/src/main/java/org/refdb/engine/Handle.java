package org.refdb.engine;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;

/**
 * Something that the engine keeps open for Java.
 *
 * <p>Java holds a number, never an address, and a number is never given out twice: using it after {@link #close}, in
 * whatever thread, is a {@link ClosedHandleException}. A call that is under way while another thread closes the handle
 * ends well. A handle that is forgotten is closed once it is collected, and counted.
 *
 * <p>A method that passes {@link #id} to the library must keep the handle alive until the library returns:
 *
 * <pre>{@code
 * try {
 *   return RefNatives.count(handle.id());
 * } finally {
 *   handle.keepAlive();
 * }
 * }</pre>
 */
public final class Handle implements AutoCloseable {
  private static final Cleaner CLEANER =
      Cleaner.create(
          task -> {
            Thread thread = new Thread(task, "refdb-cleaner");
            thread.setDaemon(true);
            return thread;
          });
  private static final LongAdder FORGOTTEN = new LongAdder();

  private final long id;
  private final Release release;
  private final Cleaner.Cleanable cleanable;

  /**
   * @param id the library's number, not 0
   * @param closer tells the library that it is not needed any more; must not refer to the handle or its owner
   */
  public Handle(long id, LongConsumer closer) {
    if (id == 0) {
      throw new IllegalArgumentException("the library gave no handle");
    }
    this.id = id;
    this.release = new Release(id, closer);
    this.cleanable = CLEANER.register(this, release);
  }

  /** The library's number. The library refuses it once the handle is closed. */
  public long id() {
    return id;
  }

  /** Keeps the handle from being collected, and so closed, before this is called. */
  public void keepAlive() {
    Reference.reachabilityFence(this);
  }

  /** Closes it. Doing so again does nothing. */
  @Override
  public void close() {
    release.asked = true;
    cleanable.clean();
  }

  /** How many handles of this process were collected without having been closed. */
  public static long forgotten() {
    return FORGOTTEN.sum();
  }

  private static final class Release implements Runnable {
    private final long id;
    private final LongConsumer closer;
    private volatile boolean asked;

    Release(long id, LongConsumer closer) {
      this.id = id;
      this.closer = closer;
    }

    @Override
    public void run() {
      if (!asked) {
        FORGOTTEN.increment();
      }
      closer.accept(id);
    }
  }
}

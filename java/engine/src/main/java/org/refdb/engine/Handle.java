package org.refdb.engine;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;

/**
 * A reference to something that the engine keeps open for Java.
 *
 * <p>Java holds a number, never an address, and no number is used twice. Using a handle after {@link #close}, in any
 * thread, throws a {@link ClosedHandleException}. A call that is in progress while another thread closes the handle
 * either ends as if the handle were open, or throws this exception. A handle that was not closed is closed when it is
 * garbage collected, and counted as forgotten.
 *
 * <p>The library is called inside of {@link #call} or {@link #run}, which keep the handle alive until it has returned,
 * or else {@link #keepAlive} is called afterwards:
 *
 * <pre>{@code
 * return handle.call(id -> RefNatives.info(id));
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
   * Creates a handle.
   *
   * @param id the number that the library returned, not 0
   * @param closer tells the library that the handle is no longer needed; it must not refer to the handle or its owner
   */
  public Handle(long id, LongConsumer closer) {
    if (id == 0) {
      throw new IllegalArgumentException("the library gave no handle");
    }
    this.id = id;
    this.release = new Release(id, closer);
    this.cleanable = CLEANER.register(this, release);
  }

  /** Returns the number of the handle. The library refuses it once the handle is closed. */
  long id() {
    return id;
  }

  /** A call of the library that returns a value. */
  @FunctionalInterface
  interface Call<T, E extends Exception> {
    T of(long id) throws E;
  }

  /** A call of the library that returns nothing. */
  @FunctionalInterface
  interface Order<E extends Exception> {
    void of(long id) throws E;
  }

  <T, E extends Exception> T call(Call<T, E> call) throws E {
    try {
      return call.of(id);
    } finally {
      keepAlive();
    }
  }

  <E extends Exception> void run(Order<E> order) throws E {
    try {
      order.of(id);
    } finally {
      keepAlive();
    }
  }

  /**
   * Keeps the handle alive, for calls that are so frequent that they must not even allocate a lambda. It must be
   * called after the library has returned.
   */
  void keepAlive() {
    Reference.reachabilityFence(this);
  }

  /** Closes the handle. Closing it again does nothing. */
  @Override
  public void close() {
    release.asked = true;
    cleanable.clean();
  }

  /** Returns the number of handles of this process that were garbage collected without having been closed. */
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

package org.refdb.engine;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;

/**
 * Something that the engine keeps open for Java.
 *
 * <p>Java holds a number, never an address, and a number is never given out twice. Using it after {@link #close}, in
 * any thread, is a {@link ClosedHandleException}. A call that is under way while another thread closes the handle ends
 * well. A handle that is forgotten is closed once it is collected, and counted.
 *
 * <p>The library is asked inside of {@link #call} or {@link #run}, which keep the handle alive until it has answered:
 *
 * <pre>{@code
 * return handle.call(id -> RefNatives.count(id));
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
   * @param closer tells the library that it is not needed any more. It must not refer to the handle or its owner
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
  long id() {
    return id;
  }

  /** Asks the library something. */
  @FunctionalInterface
  interface Call<T, E extends Exception> {
    T of(long id) throws E;
  }

  /** Tells the library something. */
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

  /** For calls so frequent that not even a lambda may be allocated. To be called after the library returned. */
  void keepAlive() {
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

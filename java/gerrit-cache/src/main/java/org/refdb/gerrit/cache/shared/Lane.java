package org.refdb.gerrit.cache.shared;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * A thread with a connection. It sends the calls that have come since its last turn in one write, reads the answers in
 * their order, and hands them out. A call whose caller has left is skipped, or its answer dropped, so nobody's deadline
 * costs the connection.
 */
final class Lane implements AutoCloseable {
  private static final int WAITING_MAX = 1 << 14;
  private static final int BATCH_MAX = 1024;
  private static final long IDLE_SECONDS = 20;
  private static final long PAUSE_MILLIS_MIN = 50;
  private static final long PAUSE_MILLIS_MAX = 5_000;

  private final BlockingQueue<Call> waiting = new ArrayBlockingQueue<>(WAITING_MAX);
  private final Supplier<Connector.Link> connector;
  private final Failures failures;
  private final Thread thread;
  private volatile Connector.Link link;
  private volatile boolean isClosed;

  /** Hears of connections that fail. */
  interface Failures {
    void failed(Throwable cause);
  }

  Lane(String name, Supplier<Connector.Link> connector, Failures failures) {
    this.connector = connector;
    this.failures = failures;
    this.thread = new Thread(this::run, name);
    thread.setDaemon(true);
    thread.start();
  }

  /** Takes a call. Returns false, without waiting, if there is no connection or too much waits for it. */
  boolean offer(Call call) {
    return link != null && waiting.offer(call);
  }

  private void run() {
    long pause = PAUSE_MILLIS_MIN;
    while (!isClosed) {
      try (Connector.Link opened = connector.get()) {
        link = opened;
        while (!isClosed) {
          serve(opened);
          pause = PAUSE_MILLIS_MIN;
        }
      } catch (RuntimeException | Error e) { // even for want of memory: an answer must not end the thread
        link = null;
        failWaiting();
        if (!isClosed) {
          failures.failed(e);
          rest(pause);
          pause = Math.min(pause * 2, PAUSE_MILLIS_MAX);
        }
      }
    }
    link = null;
    failWaiting();
  }

  private void serve(Connector.Link on) {
    List<Call> batch = new ArrayList<>();
    try {
      Call first = waiting.poll(IDLE_SECONDS, TimeUnit.SECONDS);
      // Servers close connections that are idle for long.
      batch.add(first != null ? first : new Call(new CommandArguments(Protocol.Command.PING), new AnswerMemory()));
    } catch (InterruptedException e) {
      return; // by close()
    }
    waiting.drainTo(batch, BATCH_MAX - 1);
    batch.removeIf(Call::isAbandoned);
    try {
      exchange(on, batch);
    } catch (RuntimeException | Error e) {
      JedisConnectionException cause = new JedisConnectionException("the connection failed", e);
      batch.forEach(call -> call.fail(cause)); // those that have their answer keep it
      throw e;
    }
  }

  private static void exchange(Connector.Link on, List<Call> batch) {
    for (Call call : batch) {
      on.connection().sendCommand(call.command());
    }
    for (int i = 0; i < batch.size(); i++) {
      Call call = batch.get(i);
      try {
        call.answer(i == 0 ? on.connection().getOne() : on.connection().getUnflushedObject());
      } catch (JedisDataException e) { // the server's own words, after which the connection goes on
        call.fail(e);
      }
    }
  }

  private void failWaiting() {
    List<Call> left = new ArrayList<>();
    waiting.drainTo(left);
    left.forEach(call -> call.fail(new JedisConnectionException("there is no connection")));
  }

  private static void rest(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      // By close(), which the caller sees next.
    }
  }

  @Override
  public void close() {
    isClosed = true;
    thread.interrupt();
    Connector.Link open = link;
    if (open != null) {
      open.close(); // wakes the thread from a read, or from a write that the server does not take
    }
  }
}

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

/**
 * A connection, and a thread that opens it anew when it fails. The thread sends the calls that have come since its last
 * turn together, reads the answers in their order, and hands them out. While the thread has nothing to do, a request
 * may send and read on the request's own thread. A call whose caller has left is skipped, or its answer dropped, so
 * nobody's deadline costs the connection.
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
  private volatile Wire wire;

  /** When the thread has begun to send, a time of {@link System#nanoTime}; null while it does not send. */
  private volatile Long sendingNanos;
  private volatile boolean isClosed;

  /** Whether the first attempt to connect is still going on. */
  private volatile boolean isNew = true;

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
    return wire != null && waiting.offer(call);
  }

  /** Returns whether the first attempt to connect is still going on. */
  boolean isNew() {
    return isNew;
  }

  /**
   * Sends a few calls and waits for their answers until a time of {@link System#nanoTime}, if nobody else uses the
   * connection. Returns false if somebody does, if there is no connection, or if it has TLS; nothing was sent then.
   */
  boolean exchange(List<Call> calls, long untilNanos) {
    Wire open = wire;
    if (open == null || !waiting.isEmpty()) {
      return false;
    }
    Wire.Exchange result = open.exchange(calls, untilNanos);
    if (result == Wire.Exchange.LEFT) {
      waiting.offer(ping()); // wakes the thread, which is awake anyway if there is no room
    }
    return result != Wire.Exchange.NOT_FREE;
  }

  private static Call ping() {
    return new Call(new CommandArguments(Protocol.Command.PING), new AnswerMemory());
  }

  /**
   * Closes the connection if the thread has been sending for longer than this. A socket has no timeout for writes, so
   * that the thread would wait for as long as the system tries to send.
   */
  void giveUpSending(long nanosMax) {
    Wire open = wire;
    Long since = sendingNanos;
    if (open != null && since != null && System.nanoTime() - since > nanosMax) {
      open.close();
    }
  }

  private void run() {
    long pause = PAUSE_MILLIS_MIN;
    while (!isClosed) {
      try (Wire opened = new Wire(connector.get())) {
        sendingNanos = null;
        wire = opened;
        isNew = false;
        while (!isClosed) {
          serve(opened);
          pause = PAUSE_MILLIS_MIN;
        }
      } catch (RuntimeException | Error e) { // also an OutOfMemoryError: an answer must not end the thread
        wire = null;
        isNew = false;
        failWaiting();
        if (!isClosed) {
          failures.failed(e);
          rest(pause);
          pause = Math.min(pause * 2, PAUSE_MILLIS_MAX);
        }
      }
    }
    wire = null;
    failWaiting();
  }

  private void serve(Wire on) {
    List<Call> batch = new ArrayList<>();
    List<Call> sent = new ArrayList<>();
    try {
      Call first = waiting.poll(IDLE_SECONDS, TimeUnit.SECONDS);
      batch.add(first != null ? first : ping()); // servers close connections that are idle for long
      sent.addAll(on.take());
      waiting.drainTo(batch, BATCH_MAX - 1);
      batch.removeIf(Call::isAbandoned);
      sent.addAll(batch);
      sendingNanos = System.nanoTime();
      on.send(batch);
      sendingNanos = null;
      on.receive(sent);
      on.give();
    } catch (InterruptedException e) { // by close()
      batch.forEach(call -> call.fail(new JedisConnectionException("the connection is closed")));
    } catch (RuntimeException | Error e) {
      JedisConnectionException cause = new JedisConnectionException("the connection failed", e);
      batch.forEach(call -> call.fail(cause)); // those that have their answer keep it
      sent.forEach(call -> call.fail(cause));
      throw e;
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
      // Interrupted by close(), whose flag the caller checks next.
    }
  }

  @Override
  public void close() {
    isClosed = true;
    thread.interrupt();
    Wire open = wire;
    if (open != null) {
      open.close(); // wakes the thread from a read, or from a write that the server does not take
    }
  }
}

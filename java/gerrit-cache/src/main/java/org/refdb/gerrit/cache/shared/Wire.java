package org.refdb.gerrit.cache.shared;

import java.io.IOException;
import java.util.List;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * A connection, and who uses it: the thread of its {@link Lane}, or a request that found it free. A request takes the
 * connection only while no answer is outstanding, and never one with TLS. A request that leaves before its answers have
 * come leaves the connection to the thread, which reads them before any other.
 */
final class Wire implements AutoCloseable {
  private final Connector.Link link;
  private boolean isTaken;

  /** Whether the lane's thread waits for the connection. Meanwhile requests leave it alone, so that the wait ends. */
  private boolean isWanted;
  private List<Call> left = List.of();
  private JedisConnectionException broken;

  Wire(Connector.Link link) {
    this.link = link;
  }

  /**
   * Waits for the connection, on the thread of the lane. Returns the calls that a request has sent and left, the
   * answers to which come first.
   *
   * @throws JedisConnectionException if a request found that the connection fails
   */
  synchronized List<Call> take() throws InterruptedException {
    isWanted = true;
    while (isTaken && left.isEmpty() && broken == null) {
      wait();
    }
    isWanted = false;
    if (broken != null) {
      throw broken;
    }
    isTaken = true;
    List<Call> unanswered = left;
    left = List.of();
    return unanswered;
  }

  /** Takes the connection if it is free. */
  private synchronized boolean tryTake() {
    if (isTaken || isWanted || broken != null) {
      return false;
    }
    isTaken = true;
    return true;
  }

  synchronized void give() {
    isTaken = false;
    notifyAll();
  }

  private synchronized void leave(List<Call> unanswered) {
    left = unanswered;
    notifyAll();
  }

  private synchronized void fail(JedisConnectionException cause) {
    broken = cause;
    notifyAll();
  }

  /** What came of an exchange on the thread of a request. */
  enum Exchange {
    /** Somebody else uses the connection or waits for it, or it has TLS or has failed; nothing was sent. */
    NOT_FREE,
    /** Each call has its answer. */
    DONE,
    /** The thread of the lane has to go on: with the answers that have not come, or with a new connection. */
    LEFT
  }

  /**
   * Sends calls and reads their answers on the thread of the caller, if nobody uses the connection. What is sent must
   * be so little that it has room in the buffers of the socket, which are empty then, so that only the answers are
   * waited for.
   *
   * @param untilNanos a time of {@link System#nanoTime} at which the caller leaves
   */
  Exchange exchange(List<Call> calls, long untilNanos) {
    if (!link.canWait() || !tryTake()) {
      return Exchange.NOT_FREE;
    }
    int answered = 0;
    try {
      send(calls);
      while (answered < calls.size() && link.input().awaitAnswer(untilNanos)) {
        receive(calls.get(answered));
        answered++;
      }
    } catch (IOException | RuntimeException | Error e) { // also an OutOfMemoryError: the thread must learn of it
      JedisConnectionException cause = new JedisConnectionException("the connection failed", e);
      calls.forEach(call -> call.fail(cause)); // those that have their answer keep it
      close();
      fail(cause);
      return Exchange.LEFT;
    }
    if (answered == calls.size()) {
      give();
      return Exchange.DONE;
    }
    leave(List.copyOf(calls.subList(answered, calls.size())));
    return Exchange.LEFT;
  }

  /** Sends calls. The caller has the connection. */
  void send(List<Call> calls) {
    for (Call call : calls) {
      link.connection().sendCommand(call.command());
    }
    link.connection().flush();
  }

  /** Reads the answers to calls in the order in which they were sent. The caller has the connection. */
  void receive(List<Call> calls) {
    calls.forEach(this::receive);
  }

  private void receive(Call call) {
    try {
      call.answer(link.connection().getUnflushedObject());
    } catch (JedisDataException e) { // the server's own words, after which the connection goes on
      call.fail(e);
    }
  }

  /** Closes the connection, so that whoever is blocked in it wakes with a failure. */
  @Override
  public void close() {
    link.close();
  }
}

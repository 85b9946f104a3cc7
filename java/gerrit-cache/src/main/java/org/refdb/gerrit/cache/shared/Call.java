package org.refdb.gerrit.cache.shared;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** A command for the server, and its answer when it has come. */
final class Call implements AutoCloseable {
  private final CommandArguments command;
  private final AnswerMemory memory;
  private final CompletableFuture<Object> answer = new CompletableFuture<>();
  private long answeredNanos;

  /**
   * Creates a call.
   *
   * @param memory bounds the bytes of answers in memory; an answer that is a string of bytes counts there from when it
   *     comes until {@link #close}
   */
  Call(CommandArguments command, AnswerMemory memory) {
    this.command = command;
    this.memory = memory;
  }

  CommandArguments command() {
    return command;
  }

  /** Hands the answer to whoever waits for it; the call fails if too many answers wait to be taken. */
  void answer(Object value) {
    answeredNanos = System.nanoTime();
    long bytes = bytes(value);
    if (!memory.take(bytes)) {
      fail(new JedisConnectionException("too many answers wait to be taken"));
    } else if (!answer.complete(value)) {
      memory.give(bytes); // the caller has left
    }
  }

  /** Returns when the answer came, a time of {@link System#nanoTime}; valid once {@link #await} has returned. */
  long answeredNanos() {
    return answeredNanos;
  }

  private static long bytes(Object value) {
    return value instanceof byte[] bytes ? bytes.length : 0;
  }

  /** Gives the call up if it has no answer yet; else its answer no longer counts in the memory. */
  @Override
  public void close() {
    if (!answer.cancel(false) && answer.state() == Future.State.SUCCESS) {
      memory.give(bytes(answer.resultNow()));
    }
  }

  void fail(RuntimeException cause) {
    answer.completeExceptionally(cause);
  }

  /** Gives the call up: it is not sent if that has not happened yet, and its answer is dropped if one comes. */
  void abandon() {
    answer.cancel(false);
  }

  boolean isAbandoned() {
    return answer.isCancelled();
  }

  /**
   * Waits for the answer.
   *
   * @param nanos the longest to wait
   * @throws TimeoutException if the answer does not come in time, or this thread is interrupted; the call is then given
   *     up
   * @throws RuntimeException if there is no connection or it fails, the server refuses the command, or too many answers
   *     wait to be taken
   */
  Object await(long nanos) throws TimeoutException {
    try {
      return answer.get(Math.max(nanos, 0), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      abandon();
      throw e;
    } catch (InterruptedException e) {
      abandon();
      Thread.currentThread().interrupt();
      throw new TimeoutException("interrupted");
    } catch (ExecutionException e) {
      throw (RuntimeException) e.getCause();
    }
  }
}

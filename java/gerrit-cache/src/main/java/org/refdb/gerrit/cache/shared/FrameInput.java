package org.refdb.gerrit.cache.shared;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * The answers of a server, checked by {@link FrameCheck}. A reader gets the bytes of one answer at a time, and can wait
 * until all of them are there, so that it never leaves the client's parser in the middle of an answer.
 */
final class FrameInput extends InputStream {
  private static final int BUFFER_BYTES = 8192;

  /**
   * The timeout of a socket is a whole number of milliseconds. A time that is shorter by at most this much is rounded
   * up.
   */
  private static final long TOLERANCE_NANOS = TimeUnit.MICROSECONDS.toNanos(200);

  /** A larger answer is not collected, but read by a thread without a deadline, so that it is in memory only once. */
  private static final int COLLECTED_BYTES_MAX = 1 << 20;

  private final Socket socket;
  private final InputStream source;
  private final FrameCheck check;
  private final int timeoutMillis;
  private byte[] buffer = new byte[BUFFER_BYTES];

  /**
   * The indexes in the buffer up to which the parser has read it, up to which it is checked, and up to which it is
   * filled.
   */
  private int start;
  private int checked;
  private int end;

  /**
   * Creates the input of a connected socket.
   *
   * @param timeoutMillis how long a read waits; a wait for an answer may be shorter
   */
  FrameInput(Socket socket, long frameBytesMax, int timeoutMillis) throws IOException {
    this.socket = socket;
    this.source = socket.getInputStream();
    this.check = new FrameCheck(frameBytesMax);
    this.timeoutMillis = timeoutMillis;
    socket.setSoTimeout(timeoutMillis);
  }

  Socket socket() {
    return socket;
  }

  /**
   * Waits until the next answer is there as a whole, or until the given time to within a millisecond. Returns whether
   * the answer is there. If not, a later call or read goes on with what has come; a large answer is left to a read.
   *
   * @param untilNanos a time of {@link System#nanoTime}
   * @throws IOException if the connection fails, or the server sends what is no answer or one above the limit
   */
  boolean awaitAnswer(long untilNanos) throws IOException {
    checkNext();
    while (start == checked || !check.isAtEnd()) {
      long millis = TimeUnit.NANOSECONDS.toMillis(untilNanos - System.nanoTime() + TOLERANCE_NANOS);
      if (millis < 1 || end - start >= COLLECTED_BYTES_MAX) {
        return false;
      }
      try {
        socket.setSoTimeout((int) Math.min(millis, timeoutMillis));
        fill();
      } catch (SocketTimeoutException e) {
        return false;
      } finally {
        socket.setSoTimeout(timeoutMillis);
      }
      checkNext();
    }
    return true;
  }

  /** Checks what is there of the current answer, and of the next one only when the parser has all of this one. */
  private void checkNext() throws IOException {
    if (checked < end && (start == checked || !check.isAtEnd())) {
      checked = check.accept(buffer, checked, end);
    }
  }

  /**
   * Waits for at least one byte, and reads what there is. The limit of the check also bounds the answers in the buffer.
   */
  private void fill() throws IOException {
    if (start == end) {
      rewind();
    } else if (end == buffer.length) {
      buffer = Arrays.copyOfRange(buffer, start, start + buffer.length * (start == 0 ? 2 : 1));
      checked -= start;
      end -= start;
      start = 0;
    }
    int got = source.read(buffer, end, buffer.length - end);
    if (got < 0) {
      throw new EOFException("the server closed the connection");
    }
    end += got;
  }

  /** Starts at the beginning of the buffer again, all of which was read. */
  private void rewind() {
    start = 0;
    checked = 0;
    end = 0;
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    read(one, 0, 1);
    return one[0] & 0xFF;
  }

  @Override
  public int read(byte[] into, int from, int length) throws IOException {
    checkNext();
    if (start == checked) {
      fill();
      checkNext();
    }
    int part = Math.min(length, checked - start);
    System.arraycopy(buffer, start, into, from, part);
    start += part;
    if (start == end && buffer.length > BUFFER_BYTES) {
      buffer = new byte[BUFFER_BYTES]; // a large answer does not keep its memory
      rewind();
    }
    return part;
  }
}

package org.refdb.gerrit.cache.shared;

import java.io.IOException;

/**
 * Follows the answers of the server, finds where each ends, and refuses those for which the client's parser would
 * allocate more than a limit or recurse too deeply. The parser believes each announced length.
 */
final class FrameCheck {
  private static final int DEPTH_MAX = 6;
  private static final int LINE_MAX = 4096;
  private static final int DIGITS_MAX = 18;

  /** How many bytes an element of an array is expected to have at least, as {@code :1\r\n} has. */
  private static final int ELEMENT_BYTES_MIN = 4;

  private final long frameBytesMax;

  /** How many elements are to come of each array that has begun. */
  private final long[] elementsLeft = new long[DEPTH_MAX];
  private int depth;
  private long frameBytes;
  private long payloadLeft;
  private byte type;
  private int lineBytes;
  private long number;
  private boolean isNegative;
  private boolean sawReturn;

  FrameCheck(long frameBytesMax) {
    this.frameBytesMax = frameBytesMax;
  }

  /** Returns whether all bytes so far are whole answers. */
  boolean isAtEnd() {
    return frameBytes == 0;
  }

  /**
   * Takes bytes up to the end of an answer, or all if it does not end in them. Returns the index after the last byte
   * that was taken.
   *
   * @throws IOException if the bytes are no answer, or one above the limit
   */
  int accept(byte[] bytes, int from, int to) throws IOException {
    int at = from;
    while (at < to) {
      if (payloadLeft > 0) {
        int part = (int) Math.min(payloadLeft, to - at);
        count(part);
        payloadLeft -= part;
        at += part;
        if (payloadLeft == 0) {
          endElement();
        }
      } else {
        accept(bytes[at++]);
      }
      if (isAtEnd()) {
        break;
      }
    }
    return at;
  }

  private void accept(byte next) throws IOException {
    count(1);
    if (type == 0) {
      begin(next);
    } else if (sawReturn) {
      require(next == '\n', "a line without its end");
      endLine();
    } else if (next == '\r') {
      sawReturn = true;
    } else {
      require(next != '\n' && ++lineBytes <= LINE_MAX, "a line that does not end");
      if (type != '+' && type != '-') {
        digit(next);
      }
    }
  }

  private void begin(byte next) throws IOException {
    require("+-:$*".indexOf(next) >= 0, "an unknown type");
    type = next;
    lineBytes = 0;
    number = 0;
    isNegative = false;
    sawReturn = false;
  }

  private void digit(byte next) throws IOException {
    if (next == '-' && lineBytes == 1) {
      isNegative = true;
      return;
    }
    require(next >= '0' && next <= '9' && lineBytes <= DIGITS_MAX, "a bad number");
    number = number * 10 + next - '0';
  }

  private void endLine() throws IOException {
    byte ended = type;
    boolean isNull = isNegative && number == 1;
    require(ended == '+' || ended == '-' || lineBytes > (isNegative ? 1 : 0), "no number");
    require(!isNegative || ended == ':' || isNull, "a negative length");
    type = 0;
    sawReturn = false;
    boolean hasContent = !isNull && (ended == '$' || ended == '*' && number > 0);
    if (!hasContent) {
      endElement();
    } else if (ended == '$') {
      require(number <= frameBytesMax - frameBytes, "a value that is too large");
      payloadLeft = number + 2;
    } else {
      require(depth < DEPTH_MAX && number <= (frameBytesMax - frameBytes) / ELEMENT_BYTES_MIN, "too large an array");
      elementsLeft[depth++] = number;
    }
  }

  private void endElement() {
    while (depth > 0 && --elementsLeft[depth - 1] == 0) {
      depth--;
    }
    if (depth == 0) {
      frameBytes = 0;
    }
  }

  private void count(int bytes) throws IOException {
    frameBytes += bytes;
    require(frameBytes <= frameBytesMax + 2, "too long an answer");
  }

  private static void require(boolean holds, String otherwise) throws IOException {
    if (!holds) {
      throw new IOException("the server sent " + otherwise);
    }
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.RedisInputStream;

/**
 * Answers that come in pieces, with pauses in between, are what the server sent; damaged ones end as a value or an
 * exception.
 */
class FrameInputTest {
  private static final int LIMIT = 50_000;
  private static final long SOON = 1_000_000_000L;

  private final Random random = new Random(3);

  /** A connection on which bytes come in pieces. */
  private final class Pieces extends Socket {
    private final byte[] bytes;
    private final boolean pauses;
    private int at;
    private int largest;

    Pieces(byte[] bytes, boolean pauses) {
      this.bytes = bytes;
      this.pauses = pauses;
    }

    @Override
    public void setSoTimeout(int millis) {}

    @Override
    public InputStream getInputStream() {
      return new InputStream() {
        @Override
        public int read() {
          throw new AssertionError("bytes are not read one by one");
        }

        @Override
        public int read(byte[] into, int from, int length) throws IOException {
          largest = Math.max(largest, into.length);
          if (pauses && random.nextInt(3) == 0) {
            throw new SocketTimeoutException("a pause");
          }
          int part = Math.min(Math.min(length, bytes.length - at), 1 + random.nextInt(random.nextBoolean() ? 3 : 9_000));
          System.arraycopy(bytes, at, into, from, part);
          at += part;
          return part == 0 ? -1 : part;
        }
      };
    }
  }

  /** Appends a random answer to what the server sends. Returns the answer as text. */
  private String answer(ByteArrayOutputStream sent, int depth) {
    switch (random.nextInt(depth > 3 ? 4 : 5)) {
      case 0 -> {
        sent.writeBytes("$-1\r\n".getBytes(ISO_8859_1));
        return "null";
      }
      case 1 -> {
        int number = random.nextInt();
        sent.writeBytes((":" + number + "\r\n").getBytes(ISO_8859_1));
        return "" + number;
      }
      case 2 -> {
        sent.writeBytes("+OK\r\n".getBytes(ISO_8859_1));
        return text("OK".getBytes(ISO_8859_1));
      }
      case 3 -> {
        byte[] value = new byte[random.nextInt(random.nextInt(10) == 0 ? 20_000 : 20)];
        random.nextBytes(value);
        sent.writeBytes(("$" + value.length + "\r\n").getBytes(ISO_8859_1));
        sent.writeBytes(value);
        sent.writeBytes("\r\n".getBytes(ISO_8859_1));
        return text(value);
      }
      default -> {
        int count = random.nextInt(3);
        sent.writeBytes(("*" + count + "\r\n").getBytes(ISO_8859_1));
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
          parts.add(answer(sent, depth + 1));
        }
        return parts.toString();
      }
    }
  }

  private static String text(byte[] value) {
    return "\"" + new String(value, ISO_8859_1) + "\"";
  }

  private static String text(Object answer) {
    return switch (answer) {
      case byte[] value -> text(value);
      case List<?> parts -> parts.stream().map(FrameInputTest::text).toList().toString();
      case null -> "null";
      default -> answer.toString();
    };
  }

  @Test
  void answersInPiecesAreWhatTheServerSent() throws IOException {
    for (int round = 0; round < 300; round++) {
      ByteArrayOutputStream sent = new ByteArrayOutputStream();
      List<String> answers = new ArrayList<>();
      for (int i = 0; i < 10; i++) {
        ByteArrayOutputStream one = new ByteArrayOutputStream();
        String answer = answer(one, 0);
        if (one.size() <= LIMIT) {
          sent.writeBytes(one.toByteArray());
          answers.add(answer);
        }
      }
      FrameInput input = new FrameInput(new Pieces(sent.toByteArray(), true), LIMIT, 1_000);
      RedisInputStream parser = new RedisInputStream(input);
      for (String answer : answers) {
        while (!input.awaitAnswer(System.nanoTime() + SOON)) {
          assertFalse(input.awaitAnswer(System.nanoTime()), "there is no time to read");
        }
        assertEquals(answer, text(Protocol.read(parser)));
      }
    }
  }

  @Test
  void aReaderWithoutADeadlineGoesOnWhereOneLeft() throws IOException {
    for (int round = 0; round < 300; round++) {
      ByteArrayOutputStream sent = new ByteArrayOutputStream();
      List<String> answers = new ArrayList<>();
      for (int i = 0; i < 10; i++) {
        answers.add(answer(sent, 3));
      }
      FrameInput input = new FrameInput(new Pieces(sent.toByteArray(), false), LIMIT, 1_000);
      RedisInputStream parser = new RedisInputStream(input);
      for (String answer : answers) {
        if (random.nextBoolean()) {
          input.awaitAnswer(System.nanoTime() + (random.nextBoolean() ? 0 : SOON));
        }
        assertEquals(answer, text(Protocol.read(parser)));
      }
    }
  }

  /** One to three changed bytes lead to values or an exception, and the buffer has at most twice the limit. */
  @Test
  void damagedAnswersAreAValueOrAnExceptionAndTakeBoundedMemory() throws IOException {
    int values = 0;
    int refused = 0;
    for (int round = 0; round < 20_000; round++) {
      ByteArrayOutputStream sent = new ByteArrayOutputStream();
      answer(sent, 0);
      answer(sent, 0);
      Pieces pieces = new Pieces(damaged(sent.toByteArray()), false);
      FrameInput input = new FrameInput(pieces, LIMIT, 1_000);
      try {
        RedisInputStream parser = new RedisInputStream(input);
        while (input.awaitAnswer(System.nanoTime() + SOON)) {
          Protocol.read(parser);
          values++;
        }
      } catch (IOException | JedisException e) {
        refused++;
      }
      assertTrue(pieces.largest <= 2 * LIMIT, pieces.largest + " bytes");
    }
    assertTrue(values > 1_000 && refused > 1_000, values + " values, " + refused + " refused");
  }

  private byte[] damaged(byte[] bytes) {
    byte[] changed = bytes.clone();
    for (int i = random.nextInt(3); i >= 0 && changed.length > 0; i--) {
      int at = random.nextInt(Math.min(changed.length, 40));
      String bytesOfInterest = "$*:+-\r\n0129 \0";
      changed[at] = (byte) bytesOfInterest.charAt(random.nextInt(bytesOfInterest.length()));
    }
    return changed;
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.RedisInputStream;

/** What a server sends, honest or not, costs no more memory than the limit allows. */
class FrameCheckTest {
  private static final int LIMIT = 10_000;

  /** Returns what the check takes of some answers, one after the other. */
  private static byte[] pass(String answers) throws IOException {
    byte[] bytes = answers.getBytes(ISO_8859_1);
    FrameCheck check = new FrameCheck(LIMIT);
    int at = 0;
    while (at < bytes.length) {
      at = check.accept(bytes, at, bytes.length);
    }
    return Arrays.copyOf(bytes, at);
  }

  /** Returns the input of a connection on which a server has sent some bytes and closed it. */
  private static FrameInput input(byte[] sent) throws IOException {
    Socket socket =
        new Socket() {
          @Override
          public InputStream getInputStream() {
            return new ByteArrayInputStream(sent);
          }

          @Override
          public void setSoTimeout(int millis) {}
        };
    return new FrameInput(socket, LIMIT, 1_000);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "+OK\r\n", "-ERR no\r\n", ":-12\r\n", "$-1\r\n", "$0\r\n\r\n", "$3\r\na\r\n\r\n", "*-1\r\n", "*0\r\n",
        "*2\r\n$1\r\na\r\n*1\r\n:3\r\n+OK\r\n", "*3\r\n*0\r\n$-1\r\n:1\r\n+OK\r\n"
      })
  void answersPass(String answer) throws IOException {
    assertArrayEquals(answer.getBytes(ISO_8859_1), pass(answer));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "$2147483647\r\n", "$10001\r\n", "*2147483647\r\n", "*3000\r\n", "$99999999999999999999\r\n", "$1x\r\n",
        "%1\r\n",
        "$5\n", "$5\n$99999999\r\n", "+a\rb\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"
      })
  void whatWouldTakeMemoryOrMisleadTheParserDoesNot(String answer) {
    assertThrows(IOException.class, () -> pass(answer));
  }

  @Test
  void aLineOrAnAnswerThatDoesNotEndIsRefused() {
    assertThrows(IOException.class, () -> pass("+" + "a".repeat(5000)));
    assertThrows(IOException.class, () -> pass("*2000\r\n" + "$9\r\n123456789\r\n".repeat(2000)));
    assertEquals(700 * 5, assertPasses(":1\r\n:12\r\n".repeat(350)), "each answer has a limit of its own");
  }

  private static int assertPasses(String answers) {
    try {
      return pass(answers).length - answers.length() + 700 * 5;
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** Whatever bytes pass, the client's parser ends with a value or an exception of its own, and never with an error. */
  @Test
  void randomBytesAreAValueOrAnException() throws IOException {
    Random random = new Random(1);
    List<String> parts = List.of("$", "*", "+", "-", ":", "\r\n", "\r", "\n", "1", "9", "-1", "3", "abc", "\0", "%");
    int values = 0;
    for (int round = 0; round < 50_000; round++) {
      StringBuilder answer = new StringBuilder();
      for (int i = random.nextInt(12); i >= 0; i--) {
        answer.append(parts.get(random.nextInt(parts.size())));
      }
      byte[] bytes = answer.toString().getBytes(ISO_8859_1);
      try {
        Protocol.read(new RedisInputStream(input(bytes)));
        values++;
      } catch (JedisException e) {
        // The lane closes the connection, or hands the server's words on.
      }
    }
    assertTrue(values > 100, values + " values");
  }
}

package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A proxy in front of a server, which delays, damages, cuts off, drops or replaces the answers. */
public final class FaultyProxy implements AutoCloseable {
  /** What happens to answers. */
  public enum Fault {
    NONE,
    LATE,
    DAMAGED,
    CUT,
    LOST,
    LIES
  }

  /** Answers to other questions, and what is no answer. */
  private static final List<String> LIES =
      List.of(
          "$-1\r\n", "$5\r\nhello\r\n", ":7\r\n", "+OK\r\n", "-ERR no\r\n", "-MOVED 1 cache.invalid:1\r\n", "*0\r\n",
          "*2\r\n$1\r\na\r\n:3\r\n", "*1\r\n*1\r\n*1\r\n", "$2147483647\r\n", "*1000000000\r\n", ">2\r\n+invalidate\r\n",
          "%1\r\n+a\r\n+b\r\n", "_\r\n", "$3\r\nab", "$-2\r\n", "\r\n", "\0");

  private final ServerSocket listener;
  private final int serverPort;
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
  private final Random random = new Random(1);
  private volatile Fault fault = Fault.NONE;

  public FaultyProxy(int serverPort) throws IOException {
    this.serverPort = serverPort;
    this.listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    start(this::accept);
  }

  public String address() {
    return "redis://" + InetAddress.getLoopbackAddress().getHostAddress() + ":" + listener.getLocalPort();
  }

  public void set(Fault next) {
    fault = next;
  }

  private static void start(Runnable task) {
    Thread thread = new Thread(task, "proxy");
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    try {
      while (true) {
        Socket client = listener.accept();
        Socket server = new Socket(InetAddress.getLoopbackAddress(), serverPort);
        sockets.add(client);
        sockets.add(server);
        start(() -> copy(client, server, false));
        start(() -> copy(server, client, true));
      }
    } catch (IOException e) {
      // Closed by close(), or the server cannot be reached.
    }
  }

  private void copy(Socket from, Socket to, boolean isAnswer) {
    byte[] buffer = new byte[1 << 16];
    try (from;
        to) {
      InputStream in = from.getInputStream();
      OutputStream out = to.getOutputStream();
      int got;
      while ((got = in.read(buffer)) >= 0) {
        int length = isAnswer ? spoil(buffer, got) : got;
        out.write(buffer, 0, length);
        if (length < got && fault == Fault.CUT) {
          return;
        }
      }
    } catch (IOException | InterruptedException e) {
      // The other side has gone.
    }
  }

  /** Applies the fault to an answer. Returns how many bytes of the buffer are to be passed on. */
  private int spoil(byte[] answer, int length) throws InterruptedException {
    switch (fault) {
      case LATE -> Thread.sleep(1000);
      case DAMAGED -> {
        for (int i = 0; i < length; i += 7) {
          answer[i] ^= 0x15;
        }
      }
      case CUT -> {
        return length / 2;
      }
      case LOST -> {
        return 0;
      }
      case LIES -> {
        StringBuilder lies = new StringBuilder();
        for (int i = random.nextInt(4); i >= 0; i--) {
          lies.append(LIES.get(random.nextInt(LIES.size())));
        }
        byte[] bytes = lies.toString().getBytes(US_ASCII);
        System.arraycopy(bytes, 0, answer, 0, bytes.length);
        return bytes.length;
      }
      default -> {}
    }
    return length;
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}

package org.refdb.gerrit.cache.shared;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A way to a server on which answers are delayed, damaged, cut off or lost. */
public final class FaultyProxy implements AutoCloseable {
  /** What happens to answers. */
  public enum Fault {
    NONE,
    LATE,
    DAMAGED,
    CUT,
    LOST
  }

  private final ServerSocket listener;
  private final int serverPort;
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
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
      // By close().
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

  /** Returns how many of the bytes are passed on. */
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

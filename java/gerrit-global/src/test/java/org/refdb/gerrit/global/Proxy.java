package org.refdb.gerrit.global;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A link to etcd that can be cut, and that loses answers or keeps requests back. */
final class Proxy implements AutoCloseable {
  /** The present state of the link. */
  enum Mode {
    OPEN,
    /** Requests arrive, answers get lost. */
    NO_ANSWERS,
    /** Requests wait until {@link #deliverHeld}, also if their sender has hung up. */
    HELD,
    /** Nothing gets through, and connections break. */
    CUT
  }

  private final ServerSocket server;
  private final int target;
  private final List<Link> links = new CopyOnWriteArrayList<>();
  private volatile Mode mode = Mode.OPEN;
  private volatile long delayMillis;
  private volatile Awaited awaited;

  private record Awaited(String text, Mode mode) {}

  Proxy(int target) throws IOException {
    this.target = target;
    server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    thread("accept", this::accept);
  }

  String url() {
    return "http://localhost:" + server.getLocalPort();
  }

  void mode(Mode next) {
    mode = next;
    if (next == Mode.CUT) {
      hangUp();
    }
  }

  /** Changes its mode as soon as a request has this text, before that arrives. */
  void modeFrom(String text, Mode next) {
    awaited = new Awaited(text, next);
  }

  private void look(byte[] bytes, int length) {
    Awaited now = awaited;
    if (now != null && new String(bytes, 0, length, StandardCharsets.ISO_8859_1).contains(now.text())) {
      mode = now.mode();
      awaited = null;
    }
  }

  void delay(long millis) {
    delayMillis = millis;
  }

  /** Ends the connections to the clients. Those to etcd stay, with the requests that are held. */
  void hangUp() {
    links.forEach(link -> shut(link.client));
  }

  /** Lets the requests that were held arrive. */
  void deliverHeld() throws IOException {
    for (Link link : links) {
      link.deliver();
    }
  }

  int heldBytes() {
    return links.stream().mapToInt(link -> link.held.size()).sum();
  }

  private void accept() {
    while (!server.isClosed()) {
      try {
        Socket client = server.accept();
        if (mode == Mode.CUT) {
          client.close();
        } else {
          Link link = new Link(client, new Socket(InetAddress.getLoopbackAddress(), target));
          links.add(link);
          if (mode == Mode.CUT) {
            shut(client); // cut since it was looked at
          }
          thread("requests", link::requests);
          thread("answers", link::answers);
        }
      } catch (IOException e) {
        // The server or the target is gone: the next connection tells.
      }
    }
  }

  private final class Link {
    private final Socket client;
    private final Socket etcd;
    private final ByteArrayOutputStream held = new ByteArrayOutputStream();

    Link(Socket client, Socket etcd) {
      this.client = client;
      this.etcd = etcd;
    }

    private synchronized void request(byte[] bytes, int length) throws IOException {
      if (mode == Mode.HELD || held.size() > 0) {
        held.write(bytes, 0, length);
      } else {
        etcd.getOutputStream().write(bytes, 0, length);
      }
    }

    synchronized void deliver() throws IOException {
      byte[] late = held.toByteArray();
      held.reset();
      if (late.length > 0) {
        etcd.getOutputStream().write(late);
      }
    }

    void requests() {
      byte[] bytes = new byte[1 << 16];
      try {
        InputStream from = client.getInputStream();
        for (int length = from.read(bytes); length > 0; length = from.read(bytes)) {
          pause();
          look(bytes, length);
          request(bytes, length);
        }
      } catch (IOException e) {
        // Its other end is gone.
      }
      if (held.size() == 0) {
        shut(etcd);
      }
    }

    void answers() {
      byte[] bytes = new byte[1 << 16];
      try {
        InputStream from = etcd.getInputStream();
        for (int length = from.read(bytes); length > 0; length = from.read(bytes)) {
          pause();
          if (mode == Mode.OPEN) {
            client.getOutputStream().write(bytes, 0, length);
          }
        }
      } catch (IOException e) {
        // Its other end is gone.
      }
      shut(client);
    }
  }

  private void pause() {
    if (delayMillis > 0) {
      try {
        Thread.sleep(delayMillis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static void shut(Closeable socket) {
    try {
      socket.close();
    } catch (IOException e) {
      // It is closed.
    }
  }

  private static void thread(String name, Runnable task) {
    Thread.ofPlatform().daemon().name("proxy-" + name).start(task);
  }

  @Override
  public void close() {
    shut(server);
    links.forEach(
        link -> {
          shut(link.client);
          shut(link.etcd);
        });
  }
}

package org.refdb.gerrit.global;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** A link to etcd that can be cut, and that loses answers or keeps requests back. */
public final class Proxy implements AutoCloseable {
  /** The present state of the link. */
  public enum Mode {
    OPEN,
    /** Requests arrive, answers get lost. */
    NO_ANSWERS,
    /** Requests wait until {@link #deliverHeld}, also if their sender has hung up. Answers get lost. */
    HELD,
    /** Requests arrive, answers wait until {@link #deliverHeld}. */
    LATE_ANSWERS,
    /** Nothing gets through, and connections break. */
    CUT
  }

  private static final int PACKETS_MAX = 1024;

  private final ServerSocket server;
  private final int target;
  private final List<Link> links = new CopyOnWriteArrayList<>();
  private volatile Mode mode = Mode.OPEN;
  private volatile long delayMillis;
  private final AtomicLong requestPackets = new AtomicLong();
  private volatile Awaited awaited;

  private record Awaited(String text, Mode mode) {}

  public Proxy(int target) throws IOException {
    this.target = target;
    server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    thread("accept", this::accept);
  }

  public String url() {
    return "http://localhost:" + server.getLocalPort();
  }

  public void mode(Mode next) {
    mode = next;
    if (next == Mode.CUT) {
      hangUp();
    }
  }

  /** Changes the mode as soon as a request contains the text, and before that request arrives. */
  void modeFrom(String text, Mode next) {
    awaited = new Awaited(text, next);
  }

  private void look(byte[] bytes) {
    Awaited now = awaited;
    if (now != null && new String(bytes, StandardCharsets.ISO_8859_1).contains(now.text())) {
      mode = now.mode();
      awaited = null;
    }
  }

  /** Sets how long each packet is on its way, in either direction. */
  public void delay(long millis) {
    delayMillis = millis;
  }

  /** Ends the connections to the clients. Those to etcd stay if requests on them are held. */
  public void hangUp() {
    links.forEach(link -> shut(link.client));
  }

  /** Lets the requests and answers that were held arrive. */
  public void deliverHeld() throws IOException {
    for (Link link : links) {
      link.deliver();
    }
  }

  /** Returns how many packets the clients have sent. */
  long requestPackets() {
    return requestPackets.get();
  }

  int heldBytes() {
    return links.stream().mapToInt(link -> link.held.size()).sum();
  }

  int lateBytes() {
    return links.stream().mapToInt(link -> link.late.size()).sum();
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
            shut(client); // cut after the mode was read above
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
    private final ByteArrayOutputStream late = new ByteArrayOutputStream();

    Link(Socket client, Socket etcd) throws IOException {
      this.client = client;
      this.etcd = etcd;
      // Otherwise a second small packet waits 40 ms for the acknowledgement of the first.
      client.setTcpNoDelay(true);
      etcd.setTcpNoDelay(true);
    }

    private synchronized void request(byte[] bytes) throws IOException {
      if (mode == Mode.HELD || held.size() > 0) {
        held.write(bytes);
      } else {
        etcd.getOutputStream().write(bytes);
      }
    }

    void deliver() throws IOException {
      pour(held, this, etcd);
      pour(late, late, client);
    }

    private void receive(byte[] bytes) throws IOException {
      synchronized (late) {
        if (mode == Mode.LATE_ANSWERS || late.size() > 0) {
          late.write(bytes);
          return;
        }
      }
      if (mode == Mode.OPEN) {
        answer(bytes);
      }
    }

    /** Passes an answer on. If the client is gone, the connection to etcd ends, unless requests on it are held. */
    private void answer(byte[] bytes) throws IOException {
      try {
        client.getOutputStream().write(bytes);
      } catch (IOException e) {
        if (held.size() == 0) {
          throw e;
        }
      }
    }

    void requests() {
      carry(
          client,
          bytes -> {
            requestPackets.incrementAndGet();
            look(bytes);
            request(bytes);
          });
      if (held.size() == 0) {
        shut(etcd);
      }
    }

    void answers() {
      carry(etcd, this::receive);
      shut(client);
    }
  }

  private static void pour(ByteArrayOutputStream kept, Object lock, Socket to) throws IOException {
    synchronized (lock) {
      byte[] bytes = kept.toByteArray();
      kept.reset();
      if (bytes.length > 0) {
        to.getOutputStream().write(bytes);
      }
    }
  }

  /** Receives the bytes that a link carries. */
  private interface Sink {
    void take(byte[] bytes) throws IOException;
  }

  /** Bytes on their way, and when they arrive, in {@link System#nanoTime}. A packet without bytes is the end. */
  private record Packet(byte[] bytes, long due) {}

  /**
   * Carries what comes from a socket until its end. Each packet takes the delay that is set when it is read, and
   * several may be on their way at a time.
   */
  private void carry(Socket from, Sink to) {
    BlockingQueue<Packet> way = new ArrayBlockingQueue<>(PACKETS_MAX);
    thread("read", () -> read(from, way));
    try {
      for (Packet packet = way.take(); packet.bytes().length > 0; packet = way.take()) {
        TimeUnit.NANOSECONDS.sleep(packet.due() - System.nanoTime());
        to.take(packet.bytes());
      }
    } catch (IOException e) {
      // The receiver is gone.
      shut(from);
      way.clear(); // the reader may wait for room
    } catch (InterruptedException e) {
      throw new IllegalStateException("nobody interrupts a link", e);
    }
  }

  private void read(Socket from, BlockingQueue<Packet> way) {
    byte[] bytes = new byte[1 << 16];
    try {
      try {
        InputStream in = from.getInputStream();
        for (int length = in.read(bytes); length > 0; length = in.read(bytes)) {
          way.put(
              new Packet(
                  Arrays.copyOf(bytes, length),
                  System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(delayMillis)));
        }
      } catch (IOException e) {
        // The sender is gone.
      }
      way.put(new Packet(new byte[0], 0));
    } catch (InterruptedException e) {
      throw new IllegalStateException("nobody interrupts a link", e);
    }
  }

  private static void shut(Closeable socket) {
    try {
      socket.close();
    } catch (IOException e) {
      // The socket is not used any more.
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

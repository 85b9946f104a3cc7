package org.refdb.gerrit.cache.shared;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketException;

/** A connected socket, plain or with TLS, whose input is a {@link FrameInput}. */
final class CheckedSocket extends Socket {
  private final Socket socket;
  private final InputStream input;

  CheckedSocket(FrameInput input) {
    this.socket = input.socket();
    this.input = input;
  }

  @Override
  public InputStream getInputStream() {
    return input;
  }

  @Override
  public OutputStream getOutputStream() throws IOException {
    return socket.getOutputStream();
  }

  @Override
  public void setSoTimeout(int millis) throws SocketException {
    socket.setSoTimeout(millis);
  }

  @Override
  public int getSoTimeout() throws SocketException {
    return socket.getSoTimeout();
  }

  @Override
  public boolean isBound() {
    return socket.isBound();
  }

  @Override
  public boolean isConnected() {
    return socket.isConnected();
  }

  @Override
  public boolean isClosed() {
    return socket.isClosed();
  }

  @Override
  public boolean isInputShutdown() {
    return socket.isInputShutdown();
  }

  @Override
  public boolean isOutputShutdown() {
    return socket.isOutputShutdown();
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}

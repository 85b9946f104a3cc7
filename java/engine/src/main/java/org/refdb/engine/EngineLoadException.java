package org.refdb.engine;

/** Thrown when the native library cannot be used on this machine. The message says why, and what can be done. */
public final class EngineLoadException extends Exception {
  private static final long serialVersionUID = 1L;

  EngineLoadException(String message, Throwable cause) {
    super(message, cause);
  }
}

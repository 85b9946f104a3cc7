package org.refdb.engine;

/** Thrown when the native library cannot be used. The message says why. */
public final class EngineLoadException extends Exception {
  private static final long serialVersionUID = 1L;

  EngineLoadException(String message, Throwable cause) {
    super(message, cause);
  }
}

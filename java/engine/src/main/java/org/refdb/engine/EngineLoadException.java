package org.refdb.engine;

/** The native library cannot be used here. The message says why and what can be done. */
public final class EngineLoadException extends Exception {
  private static final long serialVersionUID = 1L;

  EngineLoadException(String message, Throwable cause) {
    super(message, cause);
  }
}

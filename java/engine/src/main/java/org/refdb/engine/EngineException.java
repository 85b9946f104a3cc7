package org.refdb.engine;

import java.io.IOException;
import java.util.Optional;

/** An error of the engine. */
public final class EngineException extends IOException {
  private static final long serialVersionUID = 1L;

  /** The kinds of errors, which differ in what a caller can do about them. */
  public enum Kind {
    /**
     * For example, an operation of the operating system failed, an entry of a cache could not be encrypted, the
     * repository was gone or kept changing while it was read, a batch took effect only in part, or it could be neither
     * completed nor undone.
     */
    IO,
    /**
     * A lock was not acquired in time, so that the caller may try again, or a cache is open for writing already.
     */
    LOCKED,
    /**
     * The file of the ref itself is corrupt or cannot be read, or a folder of refs may not be read; refs elsewhere are
     * not affected. The message names the file or folder, and {@link #refName} returns the ref, or the folder as if it
     * were one, unless there are several.
     */
    BROKEN_REF,
    /**
     * A file or an export of a cache is corrupt, or a ref leads to an invalid name.
     */
    CORRUPT,
    /**
     * An update is not possible in the current state, for example because a ref has another value, a name conflicts, or
     * an object is missing.
     */
    REJECTED,
    /**
     * The engine does not accept a setting, a name, a key, a repository or a cache, or there is an error of no other
     * kind, such as a limit that was reached or a signal.
     */
    REFUSED,
    /**
     * The global ref database did not agree to an update or gave no answer, an earlier update is not decided yet, or
     * the update has too many refs to be asked about. If the database gave no answer, the update may still take effect.
     */
    UNDECIDED,
    /** Another machine replaced a file on the file server while a list was read from it; ask for the list again. */
    REPLACED,
    /**
     * For example, a bug in refdb, a jar and a library of different versions, or an answer that is too large for a Java
     * array.
     */
    BUG
  }

  private final Kind kind;
  private final String refName;
  private final String path;

  /**
   * Creates the exception; called by the native library.
   *
   * @param kind the name of a {@link Kind}
   * @param message what happened
   * @param refName the ref that the error concerns, or null
   * @param path the file that the error concerns, or null
   */
  EngineException(String kind, String message, String refName, String path) {
    super(message);
    this.kind = Kind.valueOf(kind);
    this.refName = refName;
    this.path = path;
  }

  /** Creates an error of the kind {@link Kind#BROKEN_REF} that may concern several refs, which its message names. */
  public static EngineException ofBrokenRefs(String message) {
    return new EngineException(Kind.BROKEN_REF.name(), message, null, null);
  }

  /** Returns the kind of the error. */
  public Kind kind() {
    return kind;
  }

  /** Returns the ref that the error concerns, if it is known separately from the message. */
  public Optional<String> refName() {
    return Optional.ofNullable(refName);
  }

  /** Returns the file that the error concerns, if it is known separately from the message. */
  public Optional<String> path() {
    return Optional.ofNullable(path);
  }
}

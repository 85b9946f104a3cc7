package org.refdb.engine;

import java.io.IOException;
import java.util.Optional;

/** What the engine could not do, and why. The message says what can be done, and names ref and file. */
public final class EngineException extends IOException {
  private static final long serialVersionUID = 1L;

  /** The classes of errors, by what a caller can do. */
  public enum Kind {
    /** The operating system refused; the message names operation and path. */
    IO,
    /** A lock was not had in time: try again. The message names the lock file, its age and owner. */
    LOCKED,
    /**
     * The ref's own file is no good; other refs are not concerned. The message names the file, {@link #refName} the
     * ref.
     */
    BROKEN_REF,
    /** A file is broken. The message names it and the place in it. */
    CORRUPT,
    /** An update cannot happen as things are: another value, a name in the way, a missing object. */
    REJECTED,
    /** The engine will not do this: a setting, a name or a repository that it does not accept. */
    REFUSED,
    /** The global ref database did not agree to an update, or an earlier one is not decided yet. */
    UNDECIDED,
    /** A bug in refdb. */
    BUG
  }

  private final Kind kind;
  private final String refName;
  private final String path;

  /**
   * Made by the library.
   *
   * @param kind the name of a {@link Kind}
   * @param message what happened
   * @param refName the ref it is about, or null
   * @param path the file it is about, or null
   */
  EngineException(String kind, String message, String refName, String path) {
    super(message);
    this.kind = Kind.valueOf(kind);
    this.refName = refName;
    this.path = path;
  }

  /** The class of the error. */
  public Kind kind() {
    return kind;
  }

  /** The ref that the error is about, where it is about one. */
  public Optional<String> refName() {
    return Optional.ofNullable(refName);
  }

  /** The file that the error is about, where it is known apart from the message. */
  public Optional<String> path() {
    return Optional.ofNullable(path);
  }
}

package org.refdb.gerrit.plugin;


import java.util.LinkedHashSet;
import java.util.Set;

/** Describes errors to administrators: Gerrit itself reports most errors as internal and only logs their causes. */
final class ErrorText {
  private ErrorText() {}

  /** The messages of an error and of its causes, without repetitions. */
  static String of(Throwable error) {
    Set<String> messages = new LinkedHashSet<>();
    for (Throwable at = error; at != null; at = at.getCause()) {
      messages.add(at.getMessage() == null ? at.getClass().getSimpleName() : at.getMessage());
    }
    return String.join(": ", messages);
  }
}

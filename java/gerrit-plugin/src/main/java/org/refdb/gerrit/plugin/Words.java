package org.refdb.gerrit.plugin;

import java.util.LinkedHashSet;
import java.util.Set;

/** What went wrong, in words. Gerrit tells its users of most errors that they are internal, and keeps the reason in its log. */
final class Words {
  private Words() {}

  /** The messages of an error and of those that caused it. */
  static String of(Throwable error) {
    Set<String> words = new LinkedHashSet<>();
    for (Throwable at = error; at != null; at = at.getCause()) {
      words.add(at.getMessage() == null ? at.getClass().getSimpleName() : at.getMessage());
    }
    return String.join(": ", words);
  }
}

package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;

/**
 * The value of a ref's key from when a batch of several transactions stages the ref until the outcome replaces it: both
 * values of the ref, and the key that decides between them. A stage begins with a byte that occurs in no text, so that
 * it cannot be confused with a plain value, and sorts after all plain values.
 *
 * @param old the old value; empty if etcd had none
 */
public record Stage(Optional<String> old, String next, Decider decider) {
  /** The first byte of each stage, which is greater than that of any value. */
  static final ByteSequence FIRST = ByteSequence.from(new byte[] {(byte) 0xff});

  private static final String WORD = "staged";
  private static final String NONE = "-";

  public static boolean is(KeyValue entry) {
    return entry.getValue().startsWith(FIRST);
  }

  /** Parses the stage of an entry; empty if the entry is a plain value. */
  public static Optional<Stage> of(KeyValue entry) throws GlobalRefException {
    if (!is(entry)) {
      return Optional.empty();
    }
    String text = entry.getValue().substring(FIRST.size()).toString(StandardCharsets.UTF_8);
    String[] words = text.split(" ");
    Optional<Decider> decider = words.length == 4 && words[0].equals(WORD) ? Decider.parse(words[3]) : Optional.empty();
    if (decider.isEmpty()) {
      throw new GlobalRefException(
          "etcd has \"" + text + "\" for a staged ref, which is not in the format of this refdb",
          null);
    }
    return Optional.of(
        new Stage(
            words[1].equals(NONE) ? Optional.empty() : Optional.of(words[1]),
            words[2],
            decider.get()));
  }

  ByteSequence value() {
    return FIRST.concat(Keys.bytes(String.join(" ", WORD, old.orElse(NONE), next, decider.text())));
  }
}

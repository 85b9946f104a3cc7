package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;

/**
 * What a ref's key has while a batch of several transactions is under way. These are both values, and the key that decides
 * between them. Its first byte is in no text, so it is no value, and greater than any.
 *
 * @param old empty if etcd had no value
 */
public record Stage(Optional<String> old, String next, Decider decider) {
  /** Comes after all values. */
  static final ByteSequence FIRST = ByteSequence.from(new byte[] {(byte) 0xff});

  private static final String WORD = "staged";
  private static final String NONE = "-";

  public static boolean is(KeyValue entry) {
    return entry.getValue().startsWith(FIRST);
  }

  /** The stage that a key has, if it has one. */
  public static Optional<Stage> of(KeyValue entry) throws GlobalRefException {
    if (!is(entry)) {
      return Optional.empty();
    }
    String text = entry.getValue().substring(FIRST.size()).toString(StandardCharsets.UTF_8);
    String[] words = text.split(" ");
    Optional<Decider> decider = words.length == 4 && words[0].equals(WORD) ? Decider.parse(words[3]) : Optional.empty();
    if (decider.isEmpty()) {
      throw new GlobalRefException("etcd has \"" + text + "\" for a stage, which this refdb has not written", null);
    }
    return Optional.of(new Stage(words[1].equals(NONE) ? Optional.empty() : Optional.of(words[1]), words[2], decider.get()));
  }

  ByteSequence value() {
    return FIRST.concat(Keys.bytes(String.join(" ", WORD, old.orElse(NONE), next, decider.text())));
  }
}

package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.KeyValue;
import java.util.Optional;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/**
 * Names the key that decides a batch of several transactions; the stage of each ref in the batch refers to it.
 *
 * @param node the node that runs the batch
 * @param id the id of the intent of the batch
 */
public record Decider(String node, String id) {
  /** State of the batch. */
  public enum State {
    /** Undecided: each ref has its old value. */
    OPEN,
    /** Applied: each ref has its new value. */
    DONE,
    /** Given up: each ref keeps its old value. */
    VOID
  }

  /**
   * The value of the key in etcd.
   *
   * @param generation the generation of the project; the key does not tell whether it is imported
   * @param created the revision that created the key, which tells this key from one that a delayed request creates
   *     later
   */
  public record Entry(State state, Generation generation, long created) {
    public static Entry of(KeyValue entry) throws GlobalRefException {
      String text = Etcd.text(entry);
      String[] words = text.split(" ");
      try {
        return new Entry(State.valueOf(words[0]), new Generation(words[1], false), entry.getCreateRevision());
      } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
        throw new GlobalRefException(
            "etcd has \"" + text + "\" for the state of a batch, which is not in refdb's format", e);
      }
    }
  }

  public static String text(State state, Generation generation) {
    return state + " " + generation.id();
  }

  /** The form used in stages and in the key. */
  public String text() {
    return node + '/' + id;
  }

  static Optional<Decider> parse(String text) {
    int slash = text.indexOf('/');
    return slash < 0 ? Optional.empty() : Optional.of(new Decider(text.substring(0, slash), text.substring(slash + 1)));
  }
}

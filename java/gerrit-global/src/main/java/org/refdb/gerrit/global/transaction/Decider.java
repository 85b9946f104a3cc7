package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.KeyValue;
import java.util.Optional;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/**
 * The key that decides a batch of several transactions. Each stage names it.
 *
 * @param node whose batch it is
 * @param id which of its batches, as its intent is called
 */
public record Decider(String node, String id) {
  /** What became of the batch. */
  public enum State {
    /** It is not decided. Each ref has its old value. */
    OPEN,
    /** Each ref has its new value. */
    DONE,
    /** Each ref keeps its old value: it was open when it was closed so. */
    VOID
  }

  /**
   * What etcd has for the key.
   *
   * @param generation of the project whose refs they are
   * @param created the revision that created the key: a request that comes late may create another one of this name
   */
  public record Entry(State state, Generation generation, long created) {
    public static Entry of(KeyValue entry) throws GlobalRefException {
      String text = Etcd.text(entry);
      String[] words = text.split(" ");
      try {
        return new Entry(State.valueOf(words[0]), new Generation(words[1], false), entry.getCreateRevision());
      } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
        throw new GlobalRefException("etcd has \"" + text + "\" for what decides a batch, which refdb has not written", e);
      }
    }
  }

  public static String text(State state, Generation generation) {
    return state + " " + generation.id();
  }

  /** As a stage and the key have it. */
  public String text() {
    return node + '/' + id;
  }

  static Optional<Decider> parse(String text) {
    int slash = text.indexOf('/');
    return slash < 0 ? Optional.empty() : Optional.of(new Decider(text.substring(0, slash), text.substring(slash + 1)));
  }
}

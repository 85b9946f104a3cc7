package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.util.List;
import java.util.Optional;
import org.refdb.engine.Planted;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.Mark.Outcome;

/**
 * The mark that an intent stores: its key in etcd, and its value before the transaction.
 *
 * @param node the node that the mark belongs to
 * @param key its key, without the configured prefix
 * @param open its value, which the transaction compares
 * @param isRename whether the batch renames a ref. Versions that do not know this leave the intent alone
 * @param staged whether the batch is staged. Versions that do not know staged batches leave the intent alone
 */
public record IntentMark(String node, String key, String open, boolean isRename, boolean staged) {
  private static final String RENAME = "rename ";
  private static final String STAGED = "staged ";

  static IntentMark of(String node, Keys keys, Slot slot, boolean isRename, boolean staged) {
    return new IntentMark(node, keys.withoutPrefix(slot.key()), slot.mark().text(), isRename, staged);
  }

  static IntentMark parse(String text) throws GlobalRefException {
    String[] words = text.split(" ", 3);
    if (words.length != 3) {
      throw new GlobalRefException("an intent has \"" + text + "\" for a mark, which is not in refdb's format", null);
    }
    boolean isRename = words[2].startsWith(RENAME);
    String open = isRename ? words[2].substring(RENAME.length()) : words[2];
    boolean staged = open.startsWith(STAGED);
    open = staged ? open.substring(STAGED.length()) : open;
    Mark.parse(open);
    return new IntentMark(words[0], words[1], open, isRename, staged);
  }

  String text() {
    return node + ' ' + key + ' ' + (isRename ? RENAME : "") + (staged ? STAGED : "") + open;
  }

  /** The id of the intent. It is made from the mark, so no other intent has it at the same time. */
  String intentId() {
    int slot = key.lastIndexOf('/');
    String[] words = open.split(" ");
    return words[0] + '-' + key.substring(slot + 1) + '-' + words[1];
  }

  /**
   * Makes sure that the transaction can no longer be applied, unless it was applied already. If the node of the mark is
   * still running the transaction, etcd will refuse the transaction.
   *
   * <p>A mark that has changed was closed, by this transaction or to prevent it; one that is gone was of a program.
   */
  void close(Etcd etcd, Keys keys, Deadline deadline) throws GlobalRefException {
    ByteSequence at = keys.withPrefix(key);
    Optional<KeyValue> now = Etcd.first(etcd.read(at, GetOption.DEFAULT, deadline));
    if (Planted.ON && Planted.is("global-02")) {
      return;
    }
    if (now.isPresent() && Etcd.text(now.get()).equals(open)) {
      PutOption kept = PutOption.builder().withLeaseId(now.get().getLease()).build();
      Op put = Op.put(at, Keys.bytes(Mark.parse(open).next(Outcome.VOID).text()), kept);
      etcd.commitAgain(List.of(Etcd.is(at, open)), List.of(put), List.of(), deadline);
    }
  }
}

package org.refdb.gerrit.global.transaction;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.GetOption;
import java.util.Optional;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;

/**
 * Finds the node that wrote a value. Values do not name their writer, but a transaction that updates refs also closes
 * a mark, so that the mark and the value have the same revision. etcd knows the mark as of that revision until it
 * compacts its history.
 */
public final class LastWriter {
  private LastWriter() {}

  /**
   * Describes to people the node that wrote an entry. Empty if etcd does not answer, or does not tell the node, as for
   * values of imports and those that replaced stages, because no mark is closed with them.
   */
  static Optional<String> of(GlobalRefs refs, KeyValue entry) {
    long revision = entry.getModRevision();
    ByteSequence marks = refs.keys().allMarks();
    GetOption closedThen =
        GetOption.builder()
            .isPrefix(true)
            .withRevision(revision)
            .withMinModRevision(revision)
            .withMaxModRevision(revision)
            .withKeysOnly(true)
            .build();
    try {
      Deadline deadline = Deadline.ofOneRequest(refs.etcd().settings());
      Optional<KeyValue> mark = Etcd.first(refs.etcd().ask(marks, closedThen, deadline));
      if (mark.isEmpty()) {
        return Optional.empty();
      }
      String rest = Keys.rest(mark.get().getKey(), marks);
      String node = rest.substring(0, rest.lastIndexOf('/'));
      Optional<String> process =
          Etcd.text(refs.etcd().ask(refs.keys().node(node), GetOption.DEFAULT, deadline)).map(LastWriter::withoutStart);
      String self = node.equals(refs.nodeName()) ? "this node, " : "node ";
      return Optional.of(self + node + process.map(text -> " (" + text + ")").orElse("") + " at revision " + revision);
    } catch (GlobalRefException e) {
      return Optional.empty();
    }
  }

  private static String withoutStart(String node) {
    return node.substring(node.indexOf(' ') + 1);
  }
}

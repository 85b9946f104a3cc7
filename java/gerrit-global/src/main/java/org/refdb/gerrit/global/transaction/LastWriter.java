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
 * Which node gave a key its value. No value says so, but each transaction of a node closes its mark. So the mark and the
 * value are of one revision. Until its history is compacted etcd knows the mark as it was then.
 */
public final class LastWriter {
  private LastWriter() {}

  /** The node, for people; empty where etcd does not tell. What an import or an administrator put has no mark. */
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

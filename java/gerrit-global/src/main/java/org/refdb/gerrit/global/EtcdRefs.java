package org.refdb.gerrit.global;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.GetOption;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;

/** The values of a generation in etcd, by name, some at a time. Each page is as new as its question. */
final class EtcdRefs {
  private static final int AT_ONCE = 2000;

  /** A name and its value. */
  record Entry(String ref, String value) {}

  private final GlobalRefs refs;
  private final ByteSequence prefix;
  private final ByteSequence end;
  private ByteSequence from;
  private Iterator<KeyValue> page = List.<KeyValue>of().iterator();
  private boolean isLast;

  EtcdRefs(GlobalRefs refs, Generation generation) {
    this.refs = refs;
    prefix = refs.keys().values(generation);
    end = io.etcd.jetcd.options.OptionsUtil.prefixEndOf(prefix);
    from = prefix;
  }

  /** The next one. */
  Optional<Entry> next() throws GlobalRefException {
    while (!page.hasNext()) {
      if (isLast) {
        return Optional.empty();
      }
      GetOption some = GetOption.builder().withRange(end).withLimit(AT_ONCE).build();
      List<KeyValue> found = refs.etcd().read(from, some, refs.deadline()).getKvs();
      isLast = found.size() < AT_ONCE;
      page = found.iterator();
      if (!found.isEmpty()) {
        from = Keys.after(found.getLast().getKey());
      }
    }
    KeyValue next = page.next();
    return Optional.of(new Entry(Keys.rest(next.getKey(), prefix), Etcd.text(next)));
  }
}

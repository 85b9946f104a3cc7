package org.refdb.gerrit.global.disk;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import java.util.Optional;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.etcd.Pages;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** Iterates over the values of a generation in etcd by name. */
public final class EtcdRefs {
  private static final int AT_ONCE = 2000;

  /** A ref with its value. */
  record Entry(String ref, String value) {}

  private final GlobalRefs refs;
  private final ByteSequence prefix;
  private final Pages pages;

  EtcdRefs(GlobalRefs refs, Generation generation) {
    this.refs = refs;
    prefix = refs.keys().values(generation);
    pages = new Pages(refs.etcd(), prefix, AT_ONCE);
  }

  /** Returns the next ref, or nothing at the end. */
  Optional<Entry> next() throws GlobalRefException {
    for (Optional<KeyValue> next = pages.next(); next.isPresent(); next = pages.next()) {
      Optional<String> value = refs.stages().value(next.get(), refs.deadline());
      if (value.isPresent()) {
        return Optional.of(new Entry(Keys.rest(next.get().getKey(), prefix), value.get()));
      }
    }
    return Optional.empty();
  }
}

package org.refdb.gerrit.global.etcd;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.OptionsUtil;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;

/** The entries below a prefix by key, some at a time. Each page is as new as its question. */
public final class Pages {
  private final Etcd etcd;
  private final GetOption some;
  private final int atOnce;
  private ByteSequence from;
  private Iterator<KeyValue> page = List.<KeyValue>of().iterator();
  private boolean isLast;
  private long firstRevision;

  public Pages(Etcd etcd, ByteSequence prefix, int atOnce) {
    this.etcd = etcd;
    this.atOnce = atOnce;
    some = GetOption.builder().withRange(OptionsUtil.prefixEndOf(prefix)).withLimit(atOnce).build();
    from = prefix;
  }

  /** The next one. */
  public Optional<KeyValue> next() throws GlobalRefException {
    while (!page.hasNext()) {
      if (isLast) {
        return Optional.empty();
      }
      GetResponse response = etcd.read(from, some, Deadline.of(etcd.settings()));
      if (firstRevision == 0) {
        firstRevision = response.getHeader().getRevision();
      }
      List<KeyValue> found = response.getKvs();
      isLast = found.size() < atOnce;
      page = found.iterator();
      if (!found.isEmpty()) {
        from = Keys.after(found.getLast().getKey());
      }
    }
    return Optional.of(page.next());
  }

  /** The revision of the first page: later changes may be in the pages after it. 0 before that page. */
  public long firstRevision() {
    return firstRevision;
  }
}

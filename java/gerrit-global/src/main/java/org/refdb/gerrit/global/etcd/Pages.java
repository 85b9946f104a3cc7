package org.refdb.gerrit.global.etcd;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.OptionsUtil;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;

/**
 * Iterates over the entries below a prefix in the order of their keys, one page per request. Each page is current when
 * it is read, so an iteration is not a snapshot.
 */
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

  /** Returns the next entry, or nothing at the end. */
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

  /** The revision of the first page, 0 before it is read. Later pages may contain later changes. */
  public long firstRevision() {
    return firstRevision;
  }
}

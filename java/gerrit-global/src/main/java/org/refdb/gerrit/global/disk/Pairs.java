package org.refdb.gerrit.global.disk;

import java.io.IOException;
import java.util.Iterator;
import java.util.Optional;
import org.eclipse.jgit.lib.Ref;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.Values;

/** Iterates over the refs of a project by name, each with its value on this node's disk and in etcd. */
public final class Pairs {
  /** A ref that has a value on disk, in etcd, or both. */
  record Pair(String ref, Optional<String> disk, Optional<String> etcd) {}

  private final DiskRefs disk;
  private final Iterator<Ref> onDisk;
  private final EtcdRefs etcd;
  private Ref nextOnDisk;
  private Optional<EtcdRefs.Entry> nextInEtcd;

  Pairs(DiskRefs disk, EtcdRefs etcd) throws IOException, GlobalRefException {
    this.disk = disk;
    this.etcd = etcd;
    onDisk = disk.all();
    nextOnDisk = onDisk.hasNext() ? onDisk.next() : null;
    nextInEtcd = nextStored();
  }

  /**
   * Returns the next entry of a stored ref whose value is an object id. Gerrit's global-refdb interface also stores
   * numbers and strings.
   */
  private Optional<EtcdRefs.Entry> nextStored() throws GlobalRefException {
    Optional<EtcdRefs.Entry> next = etcd.next();
    while (next.isPresent() && !(disk.isStored(next.get().ref()) && Values.isId(next.get().value()))) {
      next = etcd.next();
    }
    return next;
  }

  /** Returns the next ref, or nothing at the end. */
  Optional<Pair> next() throws GlobalRefException {
    if (nextOnDisk == null && nextInEtcd.isEmpty()) {
      return Optional.empty();
    }
    int order =
        nextOnDisk == null
            ? 1
            : nextInEtcd.isEmpty()
                ? -1
                : DiskRefs.BY_BYTES.compare(nextOnDisk.getName(), nextInEtcd.get().ref());
    String ref = order <= 0 ? nextOnDisk.getName() : nextInEtcd.get().ref();
    Optional<String> onDiskNow = Optional.empty();
    Optional<String> inEtcdNow = Optional.empty();
    if (order <= 0) {
      onDiskNow = Optional.of(nextOnDisk.getObjectId().name());
      nextOnDisk = onDisk.hasNext() ? onDisk.next() : null;
    }
    if (order >= 0) {
      inEtcdNow = Optional.of(nextInEtcd.get().value());
      nextInEtcd = nextStored();
    }
    return Optional.of(new Pair(ref, onDiskNow, inEtcdNow));
  }
}

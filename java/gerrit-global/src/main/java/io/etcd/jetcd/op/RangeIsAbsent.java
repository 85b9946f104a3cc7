package io.etcd.jetcd.op;

import com.google.protobuf.ByteString;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.api.Compare;

/**
 * Holds if no key of a range is there. Ranges can be compared since etcd 3.3; jetcd's own {@link Cmp} has one key only. The
 * method that makes it a message is for classes of this package.
 */
public final class RangeIsAbsent extends Cmp {
  private final ByteString end;

  /** From one key to before another. */
  public RangeIsAbsent(ByteSequence first, ByteSequence end) {
    super(first, Cmp.Op.EQUAL, CmpTarget.createRevision(0));
    this.end = ByteString.copyFrom(end.getBytes());
  }

  @Override
  Compare toCompare(ByteSequence namespace) {
    if (!namespace.isEmpty()) {
      throw new IllegalStateException("the end of the range has no namespace");
    }
    return super.toCompare(namespace).toBuilder().setRangeEnd(end).build();
  }
}

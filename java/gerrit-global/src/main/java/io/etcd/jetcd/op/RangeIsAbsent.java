package io.etcd.jetcd.op;

import com.google.protobuf.ByteString;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.api.Compare;

/**
 * A comparison that holds if no key of a range exists. Ranges can be compared since etcd 3.3; jetcd's own {@link Cmp}
 * has one key only. This class is in jetcd's package because the method that converts a comparison to a message is
 * package-private.
 */
public final class RangeIsAbsent extends Cmp {
  private final ByteString end;

  /** Compares the keys from {@code first} up to but without {@code end}. */
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

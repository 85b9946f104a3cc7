package org.refdb.gerrit.global.transaction;

import java.util.Optional;
import org.refdb.engine.GlobalRef;

/** What etcd may have for a ref that native mode is about to change. */
public final class AllowedValues {
  private AllowedValues() {}

  /** What the ref gets there. */
  static String next(GlobalRef ref) {
    return ref.newId() == null ? Values.DELETED.getFirst() : ref.newId();
  }

  /** Whether this is the new value. Two nodes that count up to the same number have not done the same. */
  static boolean catchesUp(GlobalRef ref, Optional<String> value) {
    return value.equals(Optional.of(next(ref))) && !Sequences.is(ref.name());
  }

  static boolean isAsOnDisk(GlobalRef ref, Optional<String> value, boolean imported) {
    if (value.isEmpty()) {
      // In an imported project an absent ref does not exist, in others etcd has never seen it.
      return ref.oldId() == null || !imported;
    }
    return ref.oldId() == null ? Values.isDeleted(value.get()) : value.get().equals(ref.oldId());
  }
}

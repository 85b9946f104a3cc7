package org.refdb.gerrit.global.transaction;

import java.util.Optional;
import org.refdb.engine.GlobalRef;

/** Decides which values in etcd allow native mode to change a ref. */
public final class AllowedValues {
  private AllowedValues() {}

  /** Returns the value that the ref gets in etcd. */
  static String next(GlobalRef ref) {
    return ref.newId() == null ? Values.DELETED.getFirst() : ref.newId();
  }

  /**
   * Returns whether etcd has the new value already. Never true for sequences, because two nodes that increment to the
   * same number have each used it.
   */
  static boolean catchesUp(GlobalRef ref, Optional<String> value) {
    return value.equals(Optional.of(next(ref))) && !Sequences.is(ref.name());
  }

  static boolean isAsOnDisk(GlobalRef ref, Optional<String> value, boolean imported) {
    if (value.isEmpty()) {
      // In an imported project a ref without a value does not exist; in others etcd may not know the ref yet.
      return ref.oldId() == null || !imported;
    }
    return ref.oldId() == null ? Values.isDeleted(value.get()) : value.get().equals(ref.oldId());
  }
}

package org.refdb.jgit;

import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/**
 * The last long list that was read, which answers the same question until something changes. Gerrit lists all refs
 * several times for one push, and for requests that run at once.
 *
 * <p>It is held weakly. So it takes no memory of its own. While callers have lists of these rows they are in memory
 * anyway. Afterwards they stay until the next collection, as any garbage does. Only the proof is kept for long, of
 * which {@link #PROOF_BYTES_MAX} tells the length.
 *
 * @param proof the engine's, for these rows
 */
record LastList(List<String> prefixes, Set<String> excluded, byte[] proof, WeakReference<Rows> rows) {
  /** Shorter lists cost less to read than to prove. */
  private static final int REFS_MIN = 100;

  private static final int PROOF_BYTES_MAX = 64 << 10;

  /** These rows; null if they shall not be kept. */
  static LastList of(Collection<String> prefixes, Collection<String> excluded, byte[] proof, Rows rows) {
    if (proof == null || proof.length > PROOF_BYTES_MAX) {
      return null;
    }
    return new LastList(List.copyOf(prefixes), Set.copyOf(excluded), proof, new WeakReference<>(rows));
  }

  /** Whether the rows may be kept. Where a symbolic ref leads is not in the proof. */
  static boolean takes(Rows rows) {
    return rows.size() >= REFS_MIN && rows.isPlain();
  }

  boolean isOf(Collection<String> prefixes, Collection<String> excluded) {
    return this.prefixes.equals(List.copyOf(prefixes)) && this.excluded.equals(Set.copyOf(excluded));
  }

  boolean hasProof(byte[] proof) {
    return Arrays.equals(this.proof, proof);
  }
}

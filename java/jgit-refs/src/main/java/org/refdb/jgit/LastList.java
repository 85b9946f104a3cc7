package org.refdb.jgit;

import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/**
 * The last long list that was read, which answers the same query until something changes. Gerrit lists all refs several
 * times for one push, and for requests that run at the same time.
 *
 * <p>The rows are held weakly, so that the list takes no memory of its own: while callers have lists of these rows they
 * are in memory anyway, and afterwards they stay until the next garbage collection. Only the query and the proof, which
 * has at most {@link #PROOF_BYTES_MAX} bytes, are kept for long.
 *
 * @param proof the engine's proof of these rows; a later list with the same arguments has the same rows if its proof
 *     is equal
 */
record LastList(List<String> prefixes, Set<String> excluded, byte[] proof, WeakReference<Rows> rows) {
  /** The least number of refs in a list that is kept. Shorter lists cost less to read than to prove. */
  private static final int REFS_MIN = 100;

  private static final int PROOF_BYTES_MAX = 64 << 10;

  /** Returns the list of these rows; null, so that it is not kept, if it has no proof or a proof that is too long. */
  static LastList of(Collection<String> prefixes, Collection<String> excluded, byte[] proof, Rows rows) {
    if (proof == null || proof.length > PROOF_BYTES_MAX) {
      return null;
    }
    return new LastList(List.copyOf(prefixes), Set.copyOf(excluded), proof, new WeakReference<>(rows));
  }

  /**
   * Returns whether the rows are worth keeping and contain no symbolic ref, because the proof does not cover where a
   * symbolic ref leads.
   */
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

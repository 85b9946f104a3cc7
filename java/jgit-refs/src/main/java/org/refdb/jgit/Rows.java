package org.refdb.jgit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.eclipse.jgit.lib.Ref;
import org.refdb.engine.RefListing;
import org.refdb.engine.RefRows;

/**
 * The rows of a listing, in the packed form of the engine, which takes less than half of the memory of objects.
 * The refs in it never change.
 */
final class Rows {
  /**
   * Rows from the engine.
   *
   * @param picks the numbers of the rows that are listed, where -N stands for the Nth ref of {@link #resolved}; null
   *     for all rows as they are
   */
  record Chunk(RefRows rows, int[] picks) {
    int count() {
      return picks == null ? rows.count() : picks.length;
    }
  }

  private final List<Chunk> chunks = new ArrayList<>();
  /** Symbolic refs with the refs that they lead to. */
  private final List<Ref> resolved = new ArrayList<>();
  private boolean isPlain = true;
  /** The index of the first ref of each chunk, then the number of refs. */
  private int[] firsts = {0};
  /**
   * The number of the chunk in which {@link #ref(int)} found its last ref. The next ref is looked for there first,
   * because most lists are read from front to end. Threads may overwrite it, because any chunk is a correct guess.
   */
  private int lastChunk;

  private Rows() {}

  /** Resolves symbolic refs. */
  interface Resolver {
    /** Returns the ref, or null if it is not to be listed. */
    Ref resolve(String name) throws IOException;
  }

  /** Reads a listing to its end. */
  static Rows read(RefListing listing, Resolver resolver) throws IOException {
    Rows all = new Rows();
    for (RefRows rows = listing.next(); rows != null; rows = listing.next()) {
      all.isPlain &= rows.symbolicCount() == 0;
      all.add(new Chunk(rows, rows.symbolicCount() == 0 ? null : all.picks(rows, resolver)));
    }
    return all;
  }

  private int[] picks(RefRows rows, Resolver resolver) throws IOException {
    int[] picks = new int[rows.count()];
    int count = 0;
    int symbolic = 0;
    for (int row = 0; row < picks.length; row++) {
      if (symbolic == rows.symbolicCount() || rows.symbolic(symbolic) != row) {
        picks[count++] = row;
        continue;
      }
      symbolic++;
      Ref ref = resolver.resolve(RefDecoder.symbolicName(rows, row));
      if (ref != null) {
        resolved.add(ref);
        picks[count++] = -resolved.size();
      }
    }
    return Arrays.copyOf(picks, count);
  }

  private void add(Chunk chunk) {
    if (chunk.count() > 0) {
      chunks.add(chunk);
      firsts = Arrays.copyOf(firsts, firsts.length + 1);
      firsts[firsts.length - 1] = Math.addExact(firsts[firsts.length - 2], chunk.count());
    }
  }

  /**
   * Returns whether the listing had no symbolic ref, not even a dangling one. The target of a symbolic ref may lie
   * outside of what was listed.
   */
  boolean isPlain() {
    return isPlain;
  }

  int size() {
    return firsts[firsts.length - 1];
  }

  /** Returns the ref with this number, which must be below the size. */
  Ref ref(int index) {
    int at = lastChunk;
    if (index < firsts[at] || index >= firsts[at + 1]) {
      at = Arrays.binarySearch(firsts, index);
      // No chunk is empty, so no two of the numbers are equal.
      at = at >= 0 ? at : -at - 2;
      lastChunk = at;
    }
    return ref(chunks.get(at), index - firsts[at]);
  }

  private Ref ref(Chunk chunk, int at) {
    int row = chunk.picks == null ? at : chunk.picks[at];
    return row < 0 ? resolved.get(-row - 1) : RefDecoder.row(chunk.rows, row);
  }

  /** Goes through all refs from chunk to chunk, which is faster than finding the chunk of each. */
  final class Walk {
    private int next;
    private int at;
    private int count;
    private Chunk chunk;

    boolean hasNext() {
      return at < count || next < chunks.size();
    }

    /** Returns the next ref, which must exist. */
    Ref next() {
      if (at == count) {
        chunk = chunks.get(next++);
        count = chunk.count();
        at = 0;
      }
      return ref(chunk, at++);
    }
  }
}

package org.refdb.jgit;

import java.io.IOException;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.RandomAccess;
import org.eclipse.jgit.lib.Ref;
import org.refdb.engine.RefListing;
import org.refdb.engine.Unpacker;

/**
 * A list of refs, kept as the engine packed it: a third of the memory that as many objects would take, which matters
 * where there are millions of refs and a caller wants a few.
 *
 * <p>A ref is made when it is asked for, anew each time, and shares nothing with the list. The list never changes and
 * needs no open repository.
 */
final class RowList extends AbstractList<Ref> implements RandomAccess {
  /** Rows, and where each begins; what is negative counts through {@link #resolved} instead. */
  private record Chunk(byte[] rows, int[] starts) {}

  private final List<Chunk> chunks = new ArrayList<>();
  /** Refs that are no rows: HEAD, and symbolic refs with what they lead to. */
  private final List<Ref> resolved = new ArrayList<>();
  /** The index of the first ref of each chunk, then the number of refs. */
  private int[] firsts = {0};
  /** The chunk of the last question: most lists are read from front to end. Any value is right. */
  private int lastChunk;

  private RowList() {}

  /** Looks a symbolic ref up. */
  interface Resolver {
    /** The ref, or null if it shall not be listed. */
    Ref resolve(String name) throws IOException;
  }

  /**
   * Reads a listing to its end.
   *
   * @param head stands in front of the others; null for none
   */
  static RowList read(Ref head, RefListing listing, Resolver resolver) throws IOException {
    RowList list = new RowList();
    if (head != null) {
      list.resolved.add(head);
      list.add(new Chunk(new byte[0], new int[] {-1}), 1);
    }
    for (byte[] rows = listing.next(); rows != null; rows = listing.next()) {
      list.add(rows, resolver);
    }
    return list;
  }

  private void add(byte[] rows, Resolver resolver) throws IOException {
    int[] starts = new int[Math.max(1, rows.length / 32)];
    int count = 0;
    Unpacker in = new Unpacker(rows);
    while (in.hasMore()) {
      int start = in.position();
      if (RefDecoder.skipRow(in)) {
        Ref ref = resolver.resolve(new Unpacker(rows, start, rows.length).text());
        if (ref == null) {
          continue;
        }
        resolved.add(ref);
        start = -resolved.size();
      }
      if (count == starts.length) {
        starts = Arrays.copyOf(starts, 2 * count);
      }
      starts[count++] = start;
    }
    add(new Chunk(rows, Arrays.copyOf(starts, count)), count);
  }

  private void add(Chunk chunk, int count) {
    if (count > 0) {
      chunks.add(chunk);
      firsts = Arrays.copyOf(firsts, firsts.length + 1);
      firsts[firsts.length - 1] = Math.addExact(firsts[firsts.length - 2], count);
    }
  }

  @Override
  public int size() {
    return firsts[firsts.length - 1];
  }

  @Override
  public Ref get(int index) {
    int at = chunkOf(index);
    Chunk chunk = chunks.get(at);
    int start = chunk.starts[index - firsts[at]];
    if (start < 0) {
      return resolved.get(-start - 1);
    }
    Unpacker row = new Unpacker(chunk.rows, start, chunk.rows.length);
    return RefDecoder.value(row.text(), row);
  }

  private int chunkOf(int index) {
    if (index < 0 || index >= size()) {
      throw new IndexOutOfBoundsException("ref " + index + " of " + size());
    }
    int at = lastChunk;
    if (index >= firsts[at] && index < firsts[at + 1]) {
      return at;
    }
    at = Arrays.binarySearch(firsts, index);
    // No chunk is empty, so no two of the numbers are equal.
    at = at >= 0 ? at : -at - 2;
    lastChunk = at;
    return at;
  }
}

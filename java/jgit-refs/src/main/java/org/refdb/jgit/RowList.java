package org.refdb.jgit;

import java.util.AbstractList;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.RandomAccess;
import org.eclipse.jgit.lib.Ref;

/**
 * A list of refs over rows that several lists may share.
 *
 * <p>A ref of the rows that is not symbolic is created anew each time that it is read. No ref refers to the list, so
 * that a caller that keeps one ref does not keep the list in memory. The list never changes and needs no open
 * repository.
 */
final class RowList extends AbstractList<Ref> implements RandomAccess {
  private final Ref head;
  private final int heads;
  private final Rows rows;

  /**
   * @param head the ref in front of the others; null for none
   */
  RowList(Ref head, Rows rows) {
    this.head = head;
    this.heads = head == null ? 0 : 1;
    this.rows = rows;
  }

  /** Returns the rows that lists share. */
  Rows rows() {
    return rows;
  }

  @Override
  public int size() {
    return Math.addExact(rows.size(), heads);
  }

  @Override
  public Ref get(int index) {
    if (index < 0 || index >= size()) {
      throw new IndexOutOfBoundsException("ref " + index + " of " + size());
    }
    return index < heads ? head : rows.ref(index - heads);
  }

  @Override
  public Iterator<Ref> iterator() {
    return new Iterator<>() {
      private final Rows.Walk walk = rows.new Walk();
      private boolean isHeadNext = heads > 0;

      @Override
      public boolean hasNext() {
        return isHeadNext || walk.hasNext();
      }

      @Override
      public Ref next() {
        if (isHeadNext) {
          isHeadNext = false;
          return head;
        }
        if (!walk.hasNext()) {
          throw new NoSuchElementException();
        }
        return walk.next();
      }
    };
  }
}

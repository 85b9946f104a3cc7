package org.refdb.engine;

/**
 * Some rows of a list of refs, in the form that the file {@code refs/chunk.rs} of the library describes. Rows are
 * found by number and read in place, without the library.
 */
public final class RefRows {
  private final byte[] bytes;
  private final int count;
  private final int symbolicCount;
  private final int starts;

  /**
   * Creates the rows.
   *
   * @param end the offset in the array at which the rows, and the numbers that follow them, end
   */
  RefRows(byte[] bytes, int end) {
    this.bytes = bytes;
    int counts = end - 2 * Integer.BYTES;
    count = int32(counts + Integer.BYTES);
    symbolicCount = int32(counts);
    long numbers = (count + 1L + symbolicCount) * Integer.BYTES;
    if (count < 1 || symbolicCount < 0 || symbolicCount > count || numbers > counts) {
      throw new IllegalStateException("refdb's jar and library do not fit: a list has " + count + " rows");
    }
    starts = counts - (int) numbers;
  }

  private int int32(int at) {
    return (int) Packer.INT.get(bytes, at);
  }

  /** Returns the number of rows, which is at least one. */
  public int count() {
    return count;
  }

  /** Returns the number of rows with symbolic refs. */
  public int symbolicCount() {
    return symbolicCount;
  }

  /** Returns the number of the row with the symbolic ref of this number. */
  public int symbolic(int number) {
    return int32(starts + (count + 1 + number) * Integer.BYTES);
  }

  /** Returns the array that contains the rows. */
  public byte[] array() {
    return bytes;
  }

  /**
   * Returns the offset in the array at which a row starts; for the row after the last, the offset at which the last
   * ends.
   */
  public int start(int row) {
    return int32(starts + row * Integer.BYTES);
  }
}

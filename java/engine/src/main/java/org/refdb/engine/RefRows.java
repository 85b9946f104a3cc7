package org.refdb.engine;

/**
 * Some rows of a list of refs, as the library packed them: its file {@code refs/chunk.rs} says how. They are found by
 * number, read where they are, and need nothing of the library any more.
 */
public final class RefRows {
  private final byte[] bytes;
  private final int count;
  private final int symbolicCount;
  private final int starts;

  /**
   * @param end where in the array the rows and their texts end
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

  /** How many there are, at least one. */
  public int count() {
    return count;
  }

  /** How many of them are symbolic refs. */
  public int symbolicCount() {
    return symbolicCount;
  }

  /** The row of the symbolic ref of this number among them. */
  public int symbolic(int number) {
    return int32(starts + (count + 1 + number) * Integer.BYTES);
  }

  /** The array that has the rows. */
  public byte[] array() {
    return bytes;
  }

  /** Where in the array a row starts; the row behind the last starts where that ends. */
  public int start(int row) {
    return int32(starts + row * Integer.BYTES);
  }
}

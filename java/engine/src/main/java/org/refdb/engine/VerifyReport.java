package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * The result of comparing a view with the disk.
 *
 * @param refs the number of refs that were compared
 * @param broken the broken refs, which lists omit
 * @param differences the refs for which the view is wrong, because of a bug, because file attributes were trusted
 *     wrongly, or because {@code refdb.trustMillis} lets the view repeat an older answer
 */
public record VerifyReport(long refs, List<BrokenRef> broken, List<Difference> differences) {
  /**
   * A ref for which the view and the disk differed even when compared again.
   *
   * @param name the full name
   * @param view the value in the view, in words
   * @param disk the value on disk, in words
   */
  public record Difference(String name, String view, String disk) {
    /** Returns the name and both values in one line. */
    public String line() {
      return name + ": on disk " + disk + ", refdb has " + view;
    }
  }

  static VerifyReport unpack(byte[] answer) {
    Unpacker in = new Unpacker(answer);
    long refs = in.i64();
    List<BrokenRef> broken = new ArrayList<>();
    for (int left = in.i32(); left > 0; left--) {
      broken.add(new BrokenRef(in.text(), in.text()));
    }
    List<Difference> differences = new ArrayList<>();
    while (in.hasMore()) {
      differences.add(new Difference(in.text(), in.text(), in.text()));
    }
    return new VerifyReport(refs, List.copyOf(broken), List.copyOf(differences));
  }
}

package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * What comparing a view with the disk found.
 *
 * @param refs how many refs were compared
 * @param broken refs whose files are no good, which no list has
 * @param differences where the view is wrong: a bug, or attributes that were trusted and should not have been
 */
public record VerifyReport(long refs, List<BrokenRef> broken, List<Difference> differences) {
  /**
   * A ref about which view and disk differ, looked at twice.
   *
   * @param name its name
   * @param view what the view says, in words
   * @param disk what the disk says
   */
  public record Difference(String name, String view, String disk) {}

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

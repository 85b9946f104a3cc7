package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * A ref whose own file is no good. Lists leave it out, with what packed-refs says of it.
 *
 * @param name its name
 * @param text its file, and the fault of that
 */
public record BrokenRef(String name, String text) {
  /** Reads them to the end. */
  static List<BrokenRef> unpack(Unpacker in) {
    List<BrokenRef> broken = new ArrayList<>();
    while (in.hasMore()) {
      broken.add(new BrokenRef(in.text(), in.text()));
    }
    return List.copyOf(broken);
  }
}

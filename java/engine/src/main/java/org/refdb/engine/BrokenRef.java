package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * A ref whose own file is corrupt or cannot be read, or a folder of refs that may not be read. Lists omit such a ref,
 * even if packed-refs has a value for it.
 *
 * @param name the full name of the ref, or the name of the folder without a slash at its end
 * @param text the path of the file or folder, and what is wrong with it
 */
public record BrokenRef(String name, String text) {
  /** Unpacks all broken refs that remain in the answer. */
  static List<BrokenRef> unpack(Unpacker in) {
    List<BrokenRef> broken = new ArrayList<>();
    while (in.hasMore()) {
      broken.add(new BrokenRef(in.text(), in.text()));
    }
    return List.copyOf(broken);
  }
}

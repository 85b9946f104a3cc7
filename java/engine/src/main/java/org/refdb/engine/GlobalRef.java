package org.refdb.engine;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * The change of a ref that a global ref database may store.
 *
 * @param name the full name, below {@code refs/}
 * @param oldId the object before the change, in hexadecimal; null if the ref did not exist, or was symbolic or broken
 * @param newId the object after the change; null if the ref is deleted or becomes symbolic
 */
public record GlobalRef(String name, String oldId, String newId) {
  static List<GlobalRef> unpack(Unpacker in) {
    List<GlobalRef> refs = new ArrayList<>();
    for (int left = in.i32(); left > 0; left--) {
      refs.add(new GlobalRef(in.text(), id(in.bytes()), id(in.bytes())));
    }
    return refs;
  }

  private static String id(byte[] raw) {
    return raw.length == 0 ? null : HexFormat.of().formatHex(raw);
  }
}

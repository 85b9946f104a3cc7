package org.refdb.engine;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * What becomes of a ref that a global ref database may store.
 *
 * @param name the ref, below {@code refs/}
 * @param oldId its object before, in hexadecimal; null if there was none, or a symbolic ref
 * @param newId its object after; null if it goes, or becomes symbolic
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

package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * An entry of a reflog.
 *
 * @param oldId the object id before, in bytes; zeros if there was none
 * @param newId the object id after
 * @param name who changed the ref
 * @param email the address
 * @param seconds when, since 1970
 * @param offset how far from UTC, in decimal: {@code +0130} is 130
 * @param message why
 */
public record LogEntry(
    byte[] oldId, byte[] newId, String name, String email, long seconds, int offset, String message) {

  /** Reads what the library packed: whether there is a reflog, then its entries. */
  static List<LogEntry> unpack(Unpacker answer) {
    answer.u8();
    List<LogEntry> entries = new ArrayList<>();
    while (answer.hasMore()) {
      entries.add(new LogEntry(
          answer.bytes(), answer.bytes(), answer.text(), answer.text(), answer.i64(), answer.i32(), answer.text()));
    }
    return entries;
  }
}

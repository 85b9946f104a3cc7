package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * An entry of a reflog.
 *
 * @param oldId the bytes of the object id before the change; all zeros if the ref did not exist
 * @param newId the bytes of the object id after the change; all zeros if the ref was deleted
 * @param name the name of the person who changed the ref
 * @param email the address of that person
 * @param seconds the time, in seconds since 1970
 * @param offset the offset from UTC in hours and minutes as one decimal number: {@code +0130} is 130
 * @param message the message, without a newline
 */
public record LogEntry(
    byte[] oldId, byte[] newId, String name, String email, long seconds, int offset, String message) {

  /** Unpacks the answer of the library: whether there is a reflog, and its entries. */
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

package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * What came of a batch of edits.
 *
 * @param done whether the edits were made, but for those that were rejected; false if nothing was
 * @param rejections the edits that could not be made
 */
public record BatchResult(boolean done, List<Rejection> rejections) {
  /** Why an edit could not be made: git's classes. */
  public enum Reason {
    /** A ref exists where this one needs a folder, or the reverse. */
    NAME_CONFLICT,
    /** It should not exist yet. */
    CREATE_EXISTS,
    /** It should exist. */
    NONEXISTENT_REF,
    /** It has another value. */
    INCORRECT_OLD_VALUE,
    /** The new value is no good: no such object, or not a commit for a branch. */
    INVALID_NEW_VALUE,
    /** A symbolic ref was expected. */
    EXPECTED_SYMREF,
    /** It differs from another ref in case only, on a file system that does not tell them apart. */
    CASE_CONFLICT,
    /** Anything else: a lock, a bad name. */
    GENERIC,
    /** The name is too long for a reftable: git could not index it. */
    TOO_LARGE
  }

  /**
   * An edit that could not be made.
   *
   * @param position of the edit in the batch; 0 where the batch was refused as a whole
   * @param reason the class of the reason
   * @param name the ref that cannot change
   * @param text git's sentence
   */
  public record Rejection(int position, Reason reason, String name, String text) {}

  private static final Reason[] REASONS = Reason.values();

  static BatchResult unpack(byte[] answer) {
    Unpacker in = new Unpacker(answer);
    boolean done = in.u8() == 0;
    List<Rejection> rejections = new ArrayList<>();
    while (in.hasMore()) {
      rejections.add(new Rejection(in.i32(), REASONS[in.u8()], in.text(), in.text()));
    }
    return new BatchResult(done, List.copyOf(rejections));
  }
}

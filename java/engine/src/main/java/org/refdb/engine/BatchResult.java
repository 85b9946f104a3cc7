package org.refdb.engine;

import java.util.ArrayList;
import java.util.List;

/**
 * The result of a batch of edits.
 *
 * @param done whether the edits were made, except for the rejected ones; false if the batch was refused as a whole
 * @param rejections the edits that could not be made
 */
public record BatchResult(boolean done, List<Rejection> rejections) {
  /**
   * The reason why an edit could not be made, in git's classes, except that a held lock is {@link #GENERIC}, and that
   * git has no {@link #TOO_LARGE}.
   */
  public enum Reason {
    /**
     * This ref needs a folder where another one, which exists or is in the same batch, has its file, or the reverse; a
     * folder with files is in the place of the ref; two edits concern the same ref; or a symbolic ref leads to an
     * invalid name.
     */
    NAME_CONFLICT,
    /** The ref exists but should not. */
    CREATE_EXISTS,
    /** The ref does not exist, or leads to no object, but should. */
    NONEXISTENT_REF,
    /** The ref has another value than expected. */
    INCORRECT_OLD_VALUE,
    /**
     * The new value is not valid: the object does not exist, or is not a commit although the ref is a branch or HEAD;
     * or HEAD would be deleted.
     */
    INVALID_NEW_VALUE,
    /** A symbolic ref was expected. */
    EXPECTED_SYMREF,
    /**
     * The name differs from that of another ref only in case, and the file system ignores case. The engine does not
     * report this yet.
     */
    CASE_CONFLICT,
    /** Any other reason, such as a lock, or a ref that cannot be read. */
    GENERIC,
    /** The name is too long for a reftable. */
    TOO_LARGE
  }

  /**
   * An edit that could not be made.
   *
   * @param position the index of the edit in the batch; 0 if the batch was refused as a whole
   * @param reason the class of the reason
   * @param name the ref that cannot be changed
   * @param text the message: that of git, or of refdb if git has none for this reason
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

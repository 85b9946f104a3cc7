package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Edits that are checked and made in one transaction. A batch must not be used by several threads at a time.
 *
 * <p>An edit consists of a name, a change, the expected value and the end, which must be given in this order:
 *
 * <pre>{@code
 * RefBatch batch = new RefBatch(true, false);
 * batch.edit("refs/heads/main").set(newId).expectId(oldId).end(true, message, false);
 * }</pre>
 */
public final class RefBatch {
  /** The type of an object to which a ref is to point. */
  public enum ObjectClass {
    /** A commit. */
    COMMIT,
    /** A tree or a blob. */
    OTHER
  }

  private static final int SET_ID = 0;
  private static final int SET_NAME = 1;
  private static final int DELETE = 2;
  private static final int VERIFY = 3;
  private static final int FOLLOW = 1;
  private static final int SUPPRESS_LOG = 2;
  private static final int FORCE_LOG = 4;
  private static final int TAKE_LOG = 8;
  private static final int NO_MESSAGE = 0;
  private static final int SAME_MESSAGE = 1;
  private static final int NEW_MESSAGE = 2;

  private int flags;
  private final Packer settled = new Packer();
  private final Packer committer = new Packer();
  private final Packer objects = new Packer();
  private final Packer edits = new Packer();
  private boolean hasCommitter;
  private int objectCount;
  private final List<String> names = new ArrayList<>();
  private String lastMessage;
  private boolean isRename;

  /**
   * Creates an empty batch.
   *
   * @param atomic whether no edit is made if one is impossible
   * @param parentsMayGo whether the batch may delete {@code a} and create {@code a/b}, or the reverse
   */
  public RefBatch(boolean atomic, boolean parentsMayGo) {
    this.flags = (atomic ? 1 : 0) | (parentsMayGo ? 2 : 0);
  }

  /**
   * Lets an edit replace or delete a broken ref ({@link BrokenRef}), if the edit accepts any old value, or expects that
   * the ref does not exist. Outside {@code refs/}, the name must also be spelt like that of a root ref.
   */
  public RefBatch mending() {
    flags |= 4;
    return this;
  }

  /** Says that the global ref database already has these values, so that it need not be asked. */
  public RefBatch agreed() {
    flags |= 8;
    return this;
  }

  /**
   * Says that the batch settles an intent, whose values the global ref database has. If the intent is gone when the
   * refs are locked, because somebody else has settled it, the batch changes nothing.
   */
  public RefBatch settling(String intent) {
    flags |= 16;
    settled.bytes(utf8(intent));
    return this;
  }

  /**
   * Sets the person in the reflog entries.
   *
   * @param seconds the time, in seconds since 1970; a negative one is refused
   * @param offsetMinutes the offset from UTC, in minutes
   */
  public RefBatch committer(String name, String email, long seconds, int offsetMinutes) {
    int offset = offsetMinutes / 60 * 100 + offsetMinutes % 60;
    committer.bytes(utf8(name)).bytes(utf8(email)).i64(seconds).i32(offset);
    hasCommitter = true;
    return this;
  }

  /** Sets the type of an object, so that the engine need not read the object. */
  public RefBatch object(byte[] id, ObjectClass objectClass) {
    objects.bytes(id).u8(objectClass.ordinal());
    objectCount++;
    return this;
  }

  /** Says that an object is an annotated tag, and to which object it leads. */
  public RefBatch tag(byte[] id, byte[] peeled) {
    objects.bytes(id).u8(3).bytes(peeled);
    objectCount++;
    return this;
  }

  /** Begins an edit. */
  public Edit edit(String name) {
    edits.bytes(utf8(name));
    names.add(name);
    return new Edit();
  }

  /** Returns the names of the refs of the edits, in their order. */
  public List<String> names() {
    return Collections.unmodifiableList(names);
  }

  /** Returns whether a ref takes the reflog of another one, see {@link Edit#takeLog}. */
  public boolean isRename() {
    return isRename;
  }

  /** Returns the number of edits. */
  public int size() {
    return names.size();
  }

  /** The parts of an edit, which must be given in order. */
  public final class Edit {
    private String logSource;

    private Edit() {}

    /** Sets the ref to this object. */
    public Edit set(byte[] id) {
      edits.u8(SET_ID).bytes(id);
      return this;
    }

    /** Makes the ref symbolic. */
    public Edit link(String target) {
      edits.u8(SET_NAME).bytes(utf8(target));
      return this;
    }

    /** Deletes the ref. */
    public Edit delete() {
      edits.u8(DELETE);
      return this;
    }

    /** Leaves the ref unchanged and only checks the expected value. */
    public Edit verify() {
      edits.u8(VERIFY);
      return this;
    }

    /** Accepts any value, or none. */
    public Edit expectAnything() {
      edits.u8(0);
      return this;
    }

    /** Expects that the ref does not exist. */
    public Edit expectNothing() {
      edits.u8(2);
      return this;
    }

    /** Expects that the ref points to this object. */
    public Edit expectId(byte[] id) {
      edits.u8(3).bytes(id);
      return this;
    }

    /** Expects that the ref is symbolic and points to this ref. */
    public Edit expectLink(String target) {
      edits.u8(4).bytes(utf8(target));
      return this;
    }

    /** Gives the ref the reflog of {@code source}, which the same batch deletes; the batch must be atomic. */
    public Edit takeLog(String source) {
      logSource = source;
      isRename = true;
      return this;
    }

    /**
     * Ends the edit.
     *
     * @param follow whether the edit applies to the ref to which a symbolic ref leads, rather than to the symbolic ref
     *     itself
     * @param message the message for the reflog; null to write no entry
     * @param forceLog whether the entry is written regardless of {@code core.logAllRefUpdates}
     */
    public RefBatch end(boolean follow, String message, boolean forceLog) {
      int logs = (message == null ? SUPPRESS_LOG : 0) | (forceLog ? FORCE_LOG : 0) | (logSource != null ? TAKE_LOG : 0);
      edits.u8((follow ? FOLLOW : 0) | logs);
      if (message == null) {
        edits.u8(NO_MESSAGE);
      } else if (message.equals(lastMessage)) {
        edits.u8(SAME_MESSAGE);
      } else {
        edits.u8(NEW_MESSAGE).bytes(utf8(message));
      }
      if (logSource != null) {
        edits.bytes(utf8(logSource));
      }
      lastMessage = message;
      return RefBatch.this;
    }
  }

  byte[] pack() {
    Packer request = new Packer().u8(flags).raw(settled.toByteArray());
    request.u8(hasCommitter ? 1 : 0).raw(committer.toByteArray());
    request.i32(objectCount).raw(objects.toByteArray());
    return request.i32(names.size()).raw(edits.toByteArray()).toByteArray();
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}

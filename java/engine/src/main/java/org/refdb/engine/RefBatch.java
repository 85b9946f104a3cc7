package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Edits that are checked and made in one transaction. Not for more than one thread.
 *
 * <p>An edit is a name, a change, the expected value, and the entry of its reflog. They are given in this order:
 *
 * <pre>{@code
 * RefBatch batch = new RefBatch(true, false);
 * batch.edit("refs/heads/main").set(newId).expectId(oldId).log(message);
 * }</pre>
 */
public final class RefBatch {
  /** What an object is that a ref shall hold. */
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
  private final Packer committer = new Packer();
  private final Packer objects = new Packer();
  private final Packer edits = new Packer();
  private boolean hasCommitter;
  private int objectCount;
  private final List<String> names = new ArrayList<>();
  private String lastMessage;

  /**
   * @param atomic whether one impossible edit means that none is made
   * @param parentsMayGo whether {@code a} may be deleted and {@code a/b} created in one batch, or the reverse
   */
  public RefBatch(boolean atomic, boolean parentsMayGo) {
    this.flags = (atomic ? 1 : 0) | (parentsMayGo ? 2 : 0);
  }

  /** Edits that expect anything, or nothing, may replace or delete a ref whose file is no good. */
  public RefBatch mending() {
    flags |= 4;
    return this;
  }

  /** Says that the global ref database has these values already, so that it need not be asked. */
  public RefBatch agreed() {
    flags |= 8;
    return this;
  }

  /**
   * Says whom the reflogs name.
   *
   * @param offsetMinutes from UTC
   */
  public RefBatch committer(String name, String email, long seconds, int offsetMinutes) {
    int offset = offsetMinutes / 60 * 100 + offsetMinutes % 60;
    committer.bytes(utf8(name)).bytes(utf8(email)).i64(seconds).i32(offset);
    hasCommitter = true;
    return this;
  }

  /** Says what an object is, so that the engine need not read it. */
  public RefBatch object(byte[] id, ObjectClass objectClass) {
    objects.bytes(id).u8(objectClass.ordinal());
    objectCount++;
    return this;
  }

  /** Says that an object is a tag, and what it leads to. */
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

  /** The refs of the edits, in their order. */
  public List<String> names() {
    return Collections.unmodifiableList(names);
  }

  /** How many edits there are. */
  public int size() {
    return names.size();
  }

  /** The parts of an edit, to be given in order. */
  public final class Edit {
    private String logSource;

    private Edit() {}

    /** The ref gets this object. */
    public Edit set(byte[] id) {
      edits.u8(SET_ID).bytes(id);
      return this;
    }

    /** The ref becomes a symbolic one. */
    public Edit link(String target) {
      edits.u8(SET_NAME).bytes(utf8(target));
      return this;
    }

    /** The ref goes away. */
    public Edit delete() {
      edits.u8(DELETE);
      return this;
    }

    /** The ref stays as it is; only its expected value is checked. */
    public Edit verify() {
      edits.u8(VERIFY);
      return this;
    }

    /** Whatever the ref holds. */
    public Edit expectAnything() {
      edits.u8(0);
      return this;
    }

    /** The ref does not exist. */
    public Edit expectNothing() {
      edits.u8(2);
      return this;
    }

    /** The ref holds this object. */
    public Edit expectId(byte[] id) {
      edits.u8(3).bytes(id);
      return this;
    }

    /** The ref is symbolic and leads there. */
    public Edit expectLink(String target) {
      edits.u8(4).bytes(utf8(target));
      return this;
    }

    /** The ref takes over the reflog of this one, which the same batch deletes. */
    public Edit takeLog(String source) {
      logSource = source;
      return this;
    }

    /**
     * Ends the edit.
     *
     * @param follow whether a symbolic ref stands for the one that it leads to
     * @param message the reflog's; null to write none
     * @param forceLog whether the reflog is written whatever {@code core.logAllRefUpdates} says
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
    Packer request = new Packer().u8(flags).u8(hasCommitter ? 1 : 0).raw(committer.toByteArray());
    request.i32(objectCount).raw(objects.toByteArray());
    return request.i32(names.size()).raw(edits.toByteArray()).toByteArray();
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}

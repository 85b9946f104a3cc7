package org.refdb.jgit;

import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.SymbolicRef;
import org.refdb.engine.Unpacker;

/** Makes JGit's refs of the engine's answers; the library's file {@code refs/answer.rs} describes them. */
final class RefDecoder {
  /** JGit knows SHA-1 only. */
  static final int ID_BYTES = Constants.OBJECT_ID_LENGTH;

  private static final int KIND = 3;
  private static final int DIRECT = 1;
  private static final int SYMBOLIC = 2;
  private static final int PEELED = 3 << 2;
  private static final int NOT_TAG = 1 << 2;
  private static final int TAG = 2 << 2;
  private static final int STORAGE = 3 << 4;
  private static final int LOOSE = 0;
  private static final int TABLE = 2 << 4;

  private RefDecoder() {}

  /**
   * A ref with the symbolic refs that were followed.
   *
   * @return null if there is none, or more symbolic refs than JGit follows
   */
  static Ref resolved(String name, Unpacker in) {
    int links = in.u8();
    if (links == 0) {
      return value(name, in);
    }
    List<String> names = new ArrayList<>(links + 1);
    names.add(name);
    for (int i = 0; i < links; i++) {
      names.add(in.text());
    }
    String last = names.get(links);
    Ref ref = value(last, in);
    if (links > RefDatabase.MAX_SYMBOLIC_REF_DEPTH) {
      return null;
    }
    if (ref == null) {
      // Where an unborn branch is going to be.
      ref = new ObjectIdRef.Unpeeled(Ref.Storage.NEW, last, null);
    }
    for (int i = links - 1; i >= 0; i--) {
      ref = new SymbolicRef(names.get(i), ref);
    }
    return ref;
  }

  /** What a ref holds that is not symbolic; null if nothing, or if it is symbolic. */
  static Ref value(String name, Unpacker in) {
    int flags = in.u8();
    if ((flags & KIND) == 0) {
      return null;
    }
    boolean inTable = (flags & STORAGE) == TABLE;
    long index = inTable ? in.i64() : Ref.UNDEFINED_UPDATE_INDEX;
    if ((flags & KIND) == SYMBOLIC) {
      in.take(in.i32());
      return null;
    }
    ObjectId id = id(in);
    Ref.Storage where = (flags & STORAGE) == LOOSE ? Ref.Storage.LOOSE : Ref.Storage.PACKED;
    return switch (flags & PEELED) {
      case NOT_TAG -> new ObjectIdRef.PeeledNonTag(where, name, id, index);
      case TAG -> new ObjectIdRef.PeeledTag(where, name, id, id(in), index);
      default -> new ObjectIdRef.Unpeeled(where, name, id, index);
    };
  }

  /**
   * Passes over the row of a list.
   *
   * @return whether the ref is symbolic
   */
  static boolean skipRow(Unpacker in) {
    in.take(in.i32());
    int flags = in.u8();
    if ((flags & STORAGE) == TABLE) {
      in.take(Long.BYTES);
    }
    if ((flags & KIND) == DIRECT) {
      in.take((flags & PEELED) == TAG ? 2 * ID_BYTES : ID_BYTES);
      return false;
    }
    in.take(in.i32());
    return true;
  }

  static ObjectId id(Unpacker in) {
    return ObjectId.fromRaw(in.array(), in.take(ID_BYTES));
  }
}

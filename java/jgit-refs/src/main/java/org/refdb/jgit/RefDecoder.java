package org.refdb.jgit;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.SymbolicRef;
import org.refdb.engine.RefRows;
import org.refdb.engine.Unpacker;

/** Creates JGit's refs from the engine's answers, which the library's file {@code refs/answer.rs} describes. */
final class RefDecoder {
  /** The length of an object id in bytes. JGit supports SHA-1 only. */
  static final int ID_BYTES = Constants.OBJECT_ID_LENGTH;

  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  /** Reads one of the five integers in which JGit stores an object id. */
  private static final VarHandle WORD =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);

  private static final int KIND = 3;
  private static final int SYMBOLIC = 2;
  private static final int PEELED = 3 << 2;
  private static final int NOT_TAG = 1 << 2;
  private static final int TAG = 2 << 2;
  private static final int STORAGE = 3 << 4;
  private static final int LOOSE = 0;
  private static final int TABLE = 2 << 4;

  private RefDecoder() {}

  /**
   * Returns a ref with the symbolic refs that were followed.
   *
   * @return null if the ref does not exist, or leads through more symbolic refs than JGit follows
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
      // The ref is an unborn branch.
      ref = new ObjectIdRef.Unpeeled(Ref.Storage.NEW, last, null);
    }
    for (int i = links - 1; i >= 0; i--) {
      ref = new SymbolicRef(names.get(i), ref);
    }
    return ref;
  }

  /** Returns a ref that is not symbolic; null if it does not exist, or if it is symbolic. */
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

  /** Returns the ref in a row of a list, which must not be symbolic. */
  static Ref row(RefRows rows, int row) {
    byte[] bytes = rows.array();
    int at = rows.start(row);
    int end = rows.start(row + 1);
    int flags = bytes[at++];
    long index = Ref.UNDEFINED_UPDATE_INDEX;
    if ((flags & STORAGE) == TABLE) {
      index = (long) LONG.get(bytes, at);
      at += Long.BYTES;
    }
    ObjectId id = id(bytes, at);
    at += ID_BYTES;
    Ref.Storage where = (flags & STORAGE) == LOOSE ? Ref.Storage.LOOSE : Ref.Storage.PACKED;
    return switch (flags & PEELED) {
      case NOT_TAG -> new ObjectIdRef.PeeledNonTag(where, text(bytes, at, end), id, index);
      case TAG ->
          new ObjectIdRef.PeeledTag(where, text(bytes, at + ID_BYTES, end), id, id(bytes, at), index);
      default -> new ObjectIdRef.Unpeeled(where, text(bytes, at, end), id, index);
    };
  }

  /** Returns the name in the row of a symbolic ref. */
  static String symbolicName(RefRows rows, int row) {
    int at = rows.start(row);
    boolean inTable = (rows.array()[at] & STORAGE) == TABLE;
    return text(rows.array(), at + 1 + (inTable ? Long.BYTES : 0), rows.start(row + 1));
  }

  private static String text(byte[] bytes, int start, int end) {
    return new String(bytes, start, end - start, StandardCharsets.UTF_8);
  }

  private static ObjectId id(byte[] bytes, int at) {
    return new ObjectId(
        (int) WORD.get(bytes, at),
        (int) WORD.get(bytes, at + 4),
        (int) WORD.get(bytes, at + 8),
        (int) WORD.get(bytes, at + 12),
        (int) WORD.get(bytes, at + 16));
  }

  static ObjectId id(Unpacker in) {
    return id(in.array(), in.take(ID_BYTES));
  }
}

package org.refdb.gerrit.global.transaction;

import java.util.List;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;

/** Converts values from and to text. */
public final class Values {
  /** The zero ids of both hash functions, which stand for a deleted ref. */
  public static final List<String> DELETED = List.of("0".repeat(40), "0".repeat(64));

  private Values() {}

  /** Returns whether a value is an object id. */
  public static boolean isId(String value) {
    return ObjectId.isId(value);
  }

  public static boolean isDeleted(String value) {
    return DELETED.contains(value);
  }

  /** The value, unless it is that of a deleted ref. */
  public static Optional<String> live(Optional<String> value) {
    return value.filter(text -> !isDeleted(text));
  }

  public static String text(Object value) {
    return switch (value) {
      case ObjectId id -> id.name();
      case String text -> text;
      case Long number -> number.toString();
      case Integer number -> number.toString();
      case null -> throw new IllegalArgumentException("null is no value");
      default -> throw new IllegalArgumentException(
          "the global ref database has no values of " + value.getClass() + ": strings, numbers and object ids");
    };
  }

  public static <T> T parse(String text, Class<T> type) {
    Object value;
    if (type == String.class || type == Object.class) {
      value = text;
    } else if (type == Long.class) {
      value = Long.valueOf(text);
    } else if (type == Integer.class) {
      value = Integer.valueOf(text);
    } else if (type == ObjectId.class) {
      value = ObjectId.fromString(text);
    } else {
      throw new IllegalArgumentException(
          "the global ref database has no values of " + type + ": strings, numbers and object ids");
    }
    return type.cast(value);
  }

  public static boolean isNothing(Ref ref) {
    return ref.getObjectId() == null || isDeleted(ref.getObjectId().name());
  }

  public static String text(Ref ref) {
    return ref.getObjectId().name();
  }

  public static Expected expected(Ref ref) {
    return isNothing(ref) ? new Expected.Nothing() : new Expected.Is(text(ref));
  }

  public static Expected expected(Object value) {
    return value == null ? new Expected.Nothing() : new Expected.Is(text(value));
  }
}

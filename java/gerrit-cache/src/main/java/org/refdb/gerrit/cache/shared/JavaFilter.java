package org.refdb.gerrit.cache.shared;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputFilter;
import java.io.ObjectInputStream;
import java.io.ObjectStreamClass;

/** Checks, before Gerrit deserialises an object, that all in it but strings is of the expected class. */
final class JavaFilter {
  private JavaFilter() {}

  /**
   * Returns whether the bytes are an object of the class {@code type} that refers only to strings and objects of that
   * class.
   */
  static boolean accepts(byte[] bytes, Class<?> type) {
    try (TypedStream stream = new TypedStream(new ByteArrayInputStream(bytes), type)) {
      return type.isInstance(stream.readObject());
    } catch (IOException | ClassNotFoundException | RuntimeException e) {
      return false;
    }
  }

  private static final class TypedStream extends ObjectInputStream {
    private final Class<?> type;

    TypedStream(InputStream source, Class<?> type) throws IOException {
      super(source);
      this.type = type;
      setObjectInputFilter(this::check);
    }

    private ObjectInputFilter.Status check(ObjectInputFilter.FilterInfo info) {
      Class<?> found = info.serialClass();
      boolean isAllowed = found == null || found == type;
      return isAllowed ? ObjectInputFilter.Status.ALLOWED : ObjectInputFilter.Status.REJECTED;
    }

    /** Loads no class but the expected one. */
    @Override
    protected Class<?> resolveClass(ObjectStreamClass described) throws ClassNotFoundException {
      if (!described.getName().equals(type.getName())) {
        throw new ClassNotFoundException(described.getName());
      }
      return type;
    }

    /** Loads no interface, while the filter would reject a proxy only after its interfaces are loaded. */
    @Override
    protected Class<?> resolveProxyClass(String[] interfaces) throws ClassNotFoundException {
      throw new ClassNotFoundException("a proxy");
    }
  }
}

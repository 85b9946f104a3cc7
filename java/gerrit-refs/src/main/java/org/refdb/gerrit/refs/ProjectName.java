package org.refdb.gerrit.refs;

import com.google.gerrit.entities.Project;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Returns a project's name as a string. {@code Project.NameKey} is a class in Gerrit 3.12 and an interface in later
 * versions, so that a call compiled for one does not link with the other; the method is therefore looked up when this
 * class is loaded.
 */
final class ProjectName {
  private static final MethodHandle GET;

  static {
    try {
      GET =
          MethodHandles.publicLookup()
              .findVirtual(Project.NameKey.class, "get", MethodType.methodType(String.class));
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private ProjectName() {}

  static String of(Project.NameKey key) {
    try {
      return (String) GET.invokeExact(key);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }
}

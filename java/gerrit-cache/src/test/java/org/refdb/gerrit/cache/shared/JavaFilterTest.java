package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.patch.DiffSummary;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Only objects of the class of the cache's values, and strings in them, are deserialised. */
class JavaFilterTest {
  private static final AtomicInteger RUN = new AtomicInteger();

  private static final class Gadget implements Serializable {
    private static final long serialVersionUID = 1L;

    private void readObject(ObjectInputStream in) throws IOException {
      RUN.incrementAndGet();
    }
  }

  private static final class Handler implements InvocationHandler, Serializable {
    private static final long serialVersionUID = 1L;

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) {
      return null;
    }
  }

  private static final class Value implements Serializable {
    private static final long serialVersionUID = 1L;

    final Serializable field;

    Value(Serializable field) {
      this.field = field;
    }
  }

  private static byte[] bytes(Object object) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(object);
    }
    return bytes.toByteArray();
  }

  @Test
  void aValueOfTheExpectedClassIsAccepted() throws IOException {
    assertTrue(JavaFilter.accepts(bytes(new Value(null)), Value.class));
    assertTrue(JavaFilter.accepts(bytes(new DiffSummary(new String[] {"a", "b"}, 1, 2)), DiffSummary.class));
  }

  @Test
  void codeOfAnotherClassIsNotRun() throws IOException {
    assertFalse(JavaFilter.accepts(bytes(new Gadget()), Value.class));
    assertFalse(JavaFilter.accepts(bytes(new Value(new Gadget())), Value.class));
    assertFalse(JavaFilter.accepts(bytes("text"), Value.class));
    Object proxy =
        Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Runnable.class}, new Handler());
    assertFalse(JavaFilter.accepts(bytes(proxy), Value.class));
    assertFalse(JavaFilter.accepts(bytes(new Value((Serializable) proxy)), Value.class));
    assertEquals(0, RUN.get());
  }

  @Test
  void whatIsCutOrNoObjectIsRefused() throws IOException {
    byte[] whole = bytes(new Value(null));
    for (int length = 0; length < whole.length; length++) {
      assertFalse(JavaFilter.accepts(Arrays.copyOf(whole, length), Value.class));
    }
  }
}

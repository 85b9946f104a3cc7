package org.refdb.engine;

/** Entry points that only the tests' library has. */
final class TestHooks {
  private TestHooks() {}

  static native void panic(byte[] message);
}

package org.refdb.engine;

/**
 * Switches for planted faults, which prove that a test can fail. The released engine cannot switch any on, and the jar
 * for Gerrit does not have this class.
 *
 * <p>The code of a fault is guarded by {@code Planted.ON && Planted.is("NAME")} and contains no lambda, so that javac
 * omits it while {@link #ON} is false. {@code scripts/tests/check-planted-faults} compiles the modules with the
 * constant true. Code that no released jar contains, such as tests and the classes {@code Planted...} of other modules,
 * calls {@link #is} alone.
 */
public final class Planted {
  /** Whether the classes are compiled with the planted faults. */
  public static final boolean ON = false;

  private Planted() {}

  /** Returns whether this fault is planted: with {@link #ON}, if the property {@code refdb.planted.fault} names it. */
  public static boolean is(String fault) {
    return ON && fault.equals(System.getProperty("refdb.planted.fault"));
  }
}

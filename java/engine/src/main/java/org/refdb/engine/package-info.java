/**
 * The Java side of the native engine of refdb.
 *
 * <p>{@link org.refdb.engine.NativeLibrary} loads the library that is contained in the jar. A {@link
 * org.refdb.engine.Handle} refers to whatever the engine keeps open for Java, and most errors are {@link
 * org.refdb.engine.EngineException}s. No misuse of these classes can crash the JVM.
 */
package org.refdb.engine;

/**
 * refdb's native engine.
 *
 * <p>{@link org.refdb.engine.NativeLibrary} loads the library that travels in the jar. Whatever the engine keeps open
 * for Java is held by a {@link org.refdb.engine.Handle}; its errors are {@link org.refdb.engine.EngineException}s.
 * Nothing here can crash the JVM by being used wrongly.
 */
package org.refdb.engine;

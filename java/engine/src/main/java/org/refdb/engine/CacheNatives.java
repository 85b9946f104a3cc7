package org.refdb.engine;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;

/** The entry points of the library for {@link Cache}, implemented in {@code cache.rs} and its modules in crates/jni. */
final class CacheNatives {
  private CacheNatives() {}

  static native long open(byte[] request) throws EngineException;

  static native void close(long handle) throws EngineException;

  static native long addressOf(ByteBuffer buffer) throws EngineException;

  static native int get(long handle, long exchange, int keyLength) throws EngineException;

  static native byte[] getArray(long handle, long exchange, int keyLength, byte[] longKey) throws EngineException;

  static native int put(long handle, long exchange, int keyLength, int valueLength, long created, int durability)
      throws EngineException;

  static native int putLarge(long handle, byte[] key, byte[] value, long created, int durability)
      throws EngineException;

  static native boolean remove(long handle, byte[] key, int durability) throws EngineException;

  static native void clear(long handle, int durability) throws EngineException;

  static native void flush(long handle, int durability) throws EngineException;

  static native byte[] stats(long handle) throws EngineException;

  static native byte[] notices(long handle) throws EngineException;

  static native byte[] forEach(long handle, boolean values, Cache.Visitor visitor) throws EngineException;

  static native byte[] verify(long handle) throws EngineException;

  static native byte[] compact(long handle) throws EngineException;

  static native byte[] exportTo(long handle, OutputStream to) throws IOException;

  static native byte[] importFrom(long handle, InputStream from) throws IOException;

  static native int cleanVersions(byte[] request) throws EngineException;
}

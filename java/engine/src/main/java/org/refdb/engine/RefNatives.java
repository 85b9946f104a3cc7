package org.refdb.engine;

import java.nio.ByteBuffer;

/**
 * The entry points of the library for refs. Its files {@code refs.rs} and {@code refs/} describe requests and answers.
 */
final class RefNatives {
  private RefNatives() {}

  static native long viewsOpen(long memoryBytes, int openFiles);

  static native void viewsClose(long views);

  static native byte[] holdings(long views);

  static native byte[] statsOfAll(long views) throws EngineException;

  static native byte[] statsOf(long views, byte[] gitDir);

  static native boolean hintAt(long views, byte[] gitDir);

  static native long open(long views, byte[] request) throws EngineException;

  static native void close(long view);

  static native void forget(long views, byte[] gitDir);

  static native byte[] info(long view) throws EngineException;

  static native long addressOf(ByteBuffer buffer) throws EngineException;

  static native int lookup(long view, long buffer, int nameLength) throws EngineException;

  static native byte[] lookupMany(long view, byte[] request) throws EngineException;

  static native byte[] list(long view, byte[] request) throws EngineException;

  static native byte[] listProof(long listing) throws EngineException;

  static native byte[] listNext(long listing) throws EngineException;

  static native void listClose(long listing);

  static native byte[] pointingAt(long view, byte[] request) throws EngineException;

  static native byte[] conflicting(long view, byte[] name) throws EngineException;

  static native byte[] broken(long view, boolean unreported) throws EngineException;

  static native byte[] takeDisorder(long view) throws EngineException;

  static native byte[] takeGitPacks(long view) throws EngineException;

  static native byte[] sharedStorage(long view) throws EngineException;

  static native byte[] storageFault(long view) throws EngineException;

  static native byte[] takeIgnoredTrust(long view) throws EngineException;

  static native byte[] takeFailingFold(long view) throws EngineException;

  static native byte[] commit(long view, byte[] request) throws EngineException;

  static native byte[] commitAgreed(long view, byte[] request, Arbiter arbiter) throws EngineException;

  static native byte[] globalIntents(long view) throws EngineException;

  static native void removeGlobalIntent(long view, byte[] id) throws EngineException;

  static native byte[] log(long view, byte[] name, int skip, int max) throws EngineException;

  static native void optimize(long view, byte[] request) throws EngineException;

  static native void hint(long view);

  static native void flush(long view) throws EngineException;

  static native byte[] verify(long view) throws EngineException;

  static native byte[] stats(long view) throws EngineException;
}

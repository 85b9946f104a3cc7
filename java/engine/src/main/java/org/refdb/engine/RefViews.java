package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * The refs of a process's repositories, and the memory that caches of them may use. A server has one.
 *
 * <p>What is cached of a repository is kept when a {@link RefView} of it is closed: the next one finds it.
 */
public final class RefViews implements AutoCloseable {
  private final Handle handle;

  private RefViews(Handle handle) {
    this.handle = handle;
  }

  /**
   * Loads the library if need be.
   *
   * @param memoryBytes what the caches of all repositories together may take, off the Java heap
   */
  public static RefViews open(long memoryBytes) throws EngineLoadException {
    NativeLibrary.load();
    return new RefViews(new Handle(RefNatives.viewsOpen(memoryBytes), RefNatives::viewsClose));
  }

  /**
   * Opens a repository's refs.
   *
   * @param gitDir the repository's folder, absolute
   * @param settings count where the repository is not open yet in this process
   * @throws EngineException if it is no repository, or one that the engine does not understand
   */
  public RefView open(Path gitDir, RefViewSettings settings) throws EngineException {
    Packer request = new Packer().bytes(pathBytes(gitDir));
    settings.pack(request);
    try {
      return new RefView(new Handle(RefNatives.open(handle.id(), request.toByteArray()), RefNatives::close));
    } finally {
      handle.keepAlive();
    }
  }

  /** Lets go of what is cached of a repository: it was deleted, or its settings have changed. */
  public void forget(Path gitDir) {
    try {
      RefNatives.forget(handle.id(), pathBytes(gitDir));
    } finally {
      handle.keepAlive();
    }
  }

  /** Lets go of everything. Open views go on. */
  @Override
  public void close() {
    handle.close();
  }

  private static byte[] pathBytes(Path path) {
    return path.toString().getBytes(StandardCharsets.UTF_8);
  }
}

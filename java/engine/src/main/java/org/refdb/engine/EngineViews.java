package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The refs of all repositories of a process, and the memory for their caches. A process needs only one object of this
 * class.
 *
 * <p>The {@link EngineView}s of a repository share a cache, which is dropped when the last of them is closed. Those
 * that are opened after a call of {@link #forget} share a new one. If too many files are open, those of the least
 * recently used views are closed, and are opened again when needed.
 */
public final class EngineViews implements AutoCloseable {
  private final Handle handle;

  private EngineViews(Handle handle) {
    this.handle = handle;
  }

  /**
   * Creates the object, and loads the library if necessary.
   *
   * @param memoryBytes the memory that the caches of all repositories may use together, off the Java heap
   * @param openFiles the number of files that all repositories together may keep open, reduced to half of the limit of
   *     the process if it is larger; 0 stands for a quarter of that limit, but at most 8192. Never less than 16
   */
  public static EngineViews open(long memoryBytes, int openFiles) throws EngineLoadException {
    NativeLibrary.load();
    return new EngineViews(new Handle(RefNatives.viewsOpen(memoryBytes, openFiles), RefNatives::viewsClose));
  }

  /**
   * Opens the refs of a repository.
   *
   * @param gitDir the absolute path of the repository
   * @param settings the settings, which are used only if no view of the repository is open, except forgotten ones
   * @throws EngineException if the folder is not a repository or cannot be read, or if the engine does not support its
   *     format or a setting
   */
  public EngineView open(Path gitDir, EngineViewSettings settings) throws EngineException {
    Packer request = new Packer().bytes(pathBytes(gitDir));
    settings.pack(request);
    return new EngineView(new Handle(handle.call(id -> RefNatives.open(id, request.toByteArray())), RefNatives::close));
  }

  /**
   * Makes the next view of a repository start without a cache, because the repository was deleted or its settings have
   * changed. Views that are open can still be used with the former cache, but {@link #hint} and the statistics leave
   * them out from now on.
   */
  public void forget(Path gitDir) {
    handle.run(id -> RefNatives.forget(id, pathBytes(gitDir)));
  }

  /** Returns the resources that all views hold together. */
  public RefHoldings holdings() {
    return RefHoldings.unpack(new Unpacker(handle.call(id -> RefNatives.holdings(id))));
  }

  /** Returns statistics of the views of each repository, without accessing any repository. */
  public Map<Path, RefStats> stats() throws EngineException {
    Unpacker in = new Unpacker(handle.call(id -> RefNatives.statsOfAll(id)));
    Map<Path, RefStats> stats = new HashMap<>();
    for (long left = in.i64(); left > 0; left--) {
      Path gitDir = Path.of(in.text());
      stats.put(gitDir, RefStats.unpack(in));
    }
    return stats;
  }

  /** Returns statistics of the views of one repository; empty if there are none. */
  public Optional<RefStats> stats(Path gitDir) {
    Unpacker in = new Unpacker(handle.call(id -> RefNatives.statsOf(id, pathBytes(gitDir))));
    return in.u8() == 0 ? Optional.empty() : Optional.of(RefStats.unpack(in));
  }

  /**
   * Does what {@link EngineView#hint} does, for all views of a repository except forgotten ones. Returns false if there
   * are none.
   */
  public boolean hint(Path gitDir) {
    return handle.call(id -> RefNatives.hintAt(id, pathBytes(gitDir)));
  }

  /** Releases the object. Views that are open can still be used. */
  @Override
  public void close() {
    handle.close();
  }

  private static byte[] pathBytes(Path path) {
    return path.toString().getBytes(StandardCharsets.UTF_8);
  }
}

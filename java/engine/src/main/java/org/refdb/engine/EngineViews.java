package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The refs of a process's repositories, and the memory that caches of them may use. A server has one.
 *
 * <p>All {@link EngineView}s of a repository share its cache, which goes with the last of them. When too many files are
 * open, those of views that were not used for the longest time are closed. They are opened again when they are used.
 */
public final class EngineViews implements AutoCloseable {
  private final Handle handle;

  private EngineViews(Handle handle) {
    this.handle = handle;
  }

  /**
   * Loads the library if need be.
   *
   * @param memoryBytes what the caches of all repositories together may take, off the Java heap
   * @param openFiles how many files all repositories together may keep open, at most half of the process's limit. 0
   *     stands for a quarter of it
   */
  public static EngineViews open(long memoryBytes, int openFiles) throws EngineLoadException {
    NativeLibrary.load();
    return new EngineViews(new Handle(RefNatives.viewsOpen(memoryBytes, openFiles), RefNatives::viewsClose));
  }

  /**
   * Opens a repository's refs.
   *
   * @param gitDir the repository's folder, absolute
   * @param settings count where the repository is not open yet in this process
   * @throws EngineException if it is no repository, or one that the engine does not understand
   */
  public EngineView open(Path gitDir, EngineViewSettings settings) throws EngineException {
    Packer request = new Packer().bytes(pathBytes(gitDir));
    settings.pack(request);
    return new EngineView(new Handle(handle.call(id -> RefNatives.open(id, request.toByteArray())), RefNatives::close));
  }

  /**
   * The next view of a repository finds nothing cached: it was deleted, or its settings have changed. Views that
   * are open go on.
   */
  public void forget(Path gitDir) {
    handle.run(id -> RefNatives.forget(id, pathBytes(gitDir)));
  }

  /** What all views hold together. */
  public RefHoldings holdings() {
    return RefHoldings.unpack(new Unpacker(handle.call(id -> RefNatives.holdings(id))));
  }

  /** What the views of each repository have done. No repository is touched for it. */
  public Map<Path, RefStats> stats() throws EngineException {
    Unpacker in = new Unpacker(handle.call(id -> RefNatives.statsOfAll(id)));
    Map<Path, RefStats> stats = new HashMap<>();
    for (long left = in.i64(); left > 0; left--) {
      Path gitDir = Path.of(in.text());
      stats.put(gitDir, RefStats.unpack(in));
    }
    return stats;
  }

  /** What the views of one repository have done; nothing if there are none. */
  public Optional<RefStats> stats(Path gitDir) {
    Unpacker in = new Unpacker(handle.call(id -> RefNatives.statsOf(id, pathBytes(gitDir))));
    return in.u8() == 0 ? Optional.empty() : Optional.of(RefStats.unpack(in));
  }

  /** As {@link EngineView#hint}, for the views of a repository; false if there are none. */
  public boolean hint(Path gitDir) {
    return handle.call(id -> RefNatives.hintAt(id, pathBytes(gitDir)));
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

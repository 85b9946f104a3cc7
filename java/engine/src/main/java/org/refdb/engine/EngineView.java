package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * A repository's refs, for any number of threads.
 *
 * <p>Names are full refnames. Look-ups and lists stay packed, everything else is records. An {@link Unpacker} reads
 * look-ups, as the library's file {@code refs/answer.rs} describes them. {@link RefRows} has the rows of a list. As a
 * record a kept row would take 156 bytes in place of 60. A walk would take up to twice the time (decision 0073).
 */
public final class EngineView implements AutoCloseable {
  /** How {@link #optimize(boolean)} goes about it. */
  private static final int ALL = 1;

  private static final int PRUNE = 2;

  private final Handle handle;

  EngineView(Handle handle) {
    this.handle = handle;
  }

  /**
   * Looks a ref up, symbolic refs followed.
   *
   * @return what was found, then the view's version; to be read before this thread makes another look-up
   */
  public Unpacker lookup(String name) throws EngineException {
    try {
      byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
      Unpacker answer = LookupBuffer.own().lookup(handle.id(), bytes);
      return answer != null ? answer : lookupMany(List.of(name));
    } finally {
      handle.keepAlive();
    }
  }

  /** Looks many refs up: the answers in the order of the names, then the view's version. */
  public Unpacker lookupMany(Collection<String> names) throws EngineException {
    Packer request = new Packer();
    packNames(request, names);
    return new Unpacker(handle.call(id -> RefNatives.lookupMany(id, request.toByteArray())));
  }

  /**
   * Lists the refs below {@code refs/} in order of their names' bytes. These begin with one of some strings and none of
   * others. Nothing but names under {@code refs/} is listed.
   *
   * @param prefixes none for all refs
   * @param excluded may be empty
   */
  public RefListing list(Collection<String> prefixes, Collection<String> excluded) throws EngineException {
    Packer request = new Packer();
    packNames(request, prefixes);
    packNames(request, excluded);
    return RefListing.begin(handle.call(id -> RefNatives.list(id, request.toByteArray())));
  }

  /** Returns the refs that point to each of some objects or to a tag of it. All loose refs are read, once. */
  public PointingRefs pointingAt(Collection<byte[]> objectIds) throws EngineException {
    Packer request = new Packer();
    objectIds.forEach(request::bytes);
    return PointingRefs.unpack(new Unpacker(handle.call(id -> RefNatives.pointingAt(id, request.toByteArray()))));
  }

  /** Returns the names of the refs that prevent creating a ref of this name. */
  public List<String> conflicting(String name) throws EngineException {
    Unpacker answer =
        new Unpacker(handle.call(id -> RefNatives.conflicting(id, name.getBytes(StandardCharsets.UTF_8))));
    answer.u8();
    return answer.texts();
  }

  /** Returns the refs whose files are corrupt, a thousand at most. Every loose ref is read. */
  public List<BrokenRef> broken() throws EngineException {
    return broken(false);
  }

  /** Returns the broken refs found since the last call, for a log. Each is returned once until it has been repaired. */
  public List<BrokenRef> takeUnreportedBroken() throws EngineException {
    return broken(true);
  }

  /**
   * Returns where packed-refs is unsorted although its header says it is sorted, for a log: once for each such file.
   */
  public Optional<String> takeUnsortedPackedRefs() throws EngineException {
    return text(handle.call(RefNatives::takeDisorder));
  }

  /**
   * Returns why small batches go to packed-refs although {@code refdb.smallBatches} is {@code auto}, for a log.
   * Settings from outside the repository are reported once per process.
   */
  public Optional<String> takeGitPacks() throws EngineException {
    return text(handle.call(RefNatives::takeGitPacks));
  }

  /** Returns why loose refs cannot be packed, for a log: once until packing has succeeded again. */
  public Optional<String> takePackingFailure() throws EngineException {
    return text(handle.call(RefNatives::takeFailingFold));
  }

  private static Optional<String> text(byte[] text) {
    return text.length == 0 ? Optional.empty() : Optional.of(new String(text, StandardCharsets.UTF_8));
  }

  private List<BrokenRef> broken(boolean unreported) throws EngineException {
    Unpacker answer = new Unpacker(handle.call(id -> RefNatives.broken(id, unreported)));
    answer.u8();
    return BrokenRef.unpack(answer);
  }

  /**
   * Commits a batch of edits.
   *
   * @return the result for each edit
   * @throws EngineException if nothing was done for a reason that concerns the whole batch
   */
  public BatchResult commit(RefBatch batch) throws EngineException {
    return BatchResult.unpack(handle.call(id -> RefNatives.commit(id, batch.pack())));
  }

  /**
   * Commits a batch of edits if an arbiter agrees, which is consulted while the refs are locked.
   *
   * @throws EngineException of kind {@code UNDECIDED} if he does not. The path is an intent if an earlier batch of one
   *     of
   *     these refs is not decided yet
   */
  public BatchResult commit(RefBatch batch, Arbiter arbiter) throws EngineException {
    return BatchResult.unpack(handle.call(id -> RefNatives.commitAgreed(id, batch.pack(), arbiter)));
  }

  /** What batches wrote down before the global ref database was asked, and is still there. */
  public List<GlobalIntent> globalIntents() throws EngineException {
    return GlobalIntent.unpack(handle.call(id -> RefNatives.globalIntents(id)));
  }

  /** Removes an intent that is settled. */
  public void removeGlobalIntent(String intent) throws EngineException {
    handle.run(id -> RefNatives.removeGlobalIntent(id, intent.getBytes(StandardCharsets.UTF_8)));
  }

  /**
   * Reads a reflog.
   *
   * @param skip how many of the newest entries are passed over
   * @param max how many are wanted at most
   * @return the entries, newest first; none if there is no reflog
   */
  public List<LogEntry> log(String name, int skip, int max) throws EngineException {
    byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
    return LogEntry.unpack(new Unpacker(handle.call(id -> RefNatives.log(id, bytes, skip, max))));
  }

  /**
   * Brings the refs into the form that is read fastest: packed, or in one table.
   *
   * @param all also refs other than tags and those that are packed already (files only)
   */
  public void optimize(boolean all) throws EngineException {
    optimize(all ? ALL | PRUNE : PRUNE, List.of());
  }

  /** Packs certain refs, where refs are files. */
  public void pack(Collection<String> names) throws EngineException {
    optimize(PRUNE, names);
  }

  private void optimize(int flags, Collection<String> patterns) throws EngineException {
    Packer request = new Packer().u8(flags);
    packNames(request, patterns);
    handle.run(id -> RefNatives.optimize(id, request.toByteArray()));
  }

  /** Whether the refs are in a stack of reftables. */
  public boolean isReftable() throws EngineException {
    return info().u8() == 1;
  }

  /** A number that has grown whenever the refs were found changed. */
  public long version() throws EngineException {
    Unpacker info = info();
    info.u8();
    info.u8();
    return info.i64();
  }

  /** The refs may have changed: the next question looks at the disk, whatever the settings let it believe. */
  public void hint() {
    handle.run(id -> RefNatives.hint(id));
  }

  /** Drops the cache, for all views of this repository, and opens it again. */
  public void flush() throws EngineException {
    handle.run(id -> RefNatives.flush(id));
  }

  /** Compares the cache with the disk, without stopping anyone. */
  public VerifyReport verify() throws EngineException {
    return VerifyReport.unpack(handle.call(id -> RefNatives.verify(id)));
  }

  /** What this repository's views in this process have done, as long as one of them was open. */
  public RefStats stats() throws EngineException {
    return RefStats.unpack(new Unpacker(handle.call(id -> RefNatives.stats(id))));
  }

  /** Closes this view. Its cache is kept as long as there is another one of the same repository. */
  @Override
  public void close() {
    handle.close();
  }

  private Unpacker info() throws EngineException {
    return new Unpacker(handle.call(id -> RefNatives.info(id)));
  }

  private static void packNames(Packer request, Collection<String> names) {
    request.i32(names.size());
    for (String name : names) {
      request.bytes(name.getBytes(StandardCharsets.UTF_8));
    }
  }
}

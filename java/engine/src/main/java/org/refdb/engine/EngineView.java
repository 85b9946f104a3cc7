package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * The refs of a repository, for any number of threads.
 *
 * <p>Names are full refnames. Look-ups and lists stay in the packed form in which the library returns them; other
 * answers are unpacked at once. An {@link Unpacker} reads look-ups, whose form the file {@code refs/answer.rs} of the
 * library describes, and {@link RefRows} contains the rows of a list. If the rows were records,
 * each row in memory would take 156 bytes instead of 60, and a walk would take up to twice as long (decision 0073).
 */
public final class EngineView implements AutoCloseable {
  /** A flag of {@link #optimize(int, Collection)}: all refs are packed. */
  private static final int ALL = 1;

  /** A flag of {@link #optimize(int, Collection)}: the loose files of packed refs are removed. */
  private static final int PRUNE = 2;

  private final Handle handle;

  EngineView(Handle handle) {
    this.handle = handle;
  }

  /**
   * Looks up a ref and follows symbolic refs.
   *
   * @return the result, followed by the version of the view; it must be read before this thread makes another look-up
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

  /**
   * Looks up several refs. Returns the results in the order of the names, followed by the version of the view. A broken
   * ref counts as missing, and is an error only if none of the names is a ref.
   */
  public Unpacker lookupMany(Collection<String> names) throws EngineException {
    Packer request = new Packer();
    packNames(request, names);
    return new Unpacker(handle.call(id -> RefNatives.lookupMany(id, request.toByteArray())));
  }

  /**
   * Lists the refs below {@code refs/} whose names begin with one of some prefixes and with none of others, in the
   * order of the bytes of their names.
   *
   * @param prefixes empty for all refs
   * @param excluded may be empty
   */
  public RefListing list(Collection<String> prefixes, Collection<String> excluded) throws EngineException {
    Packer request = new Packer();
    packNames(request, prefixes);
    packNames(request, excluded);
    return RefListing.begin(handle.call(id -> RefNatives.list(id, request.toByteArray())));
  }

  /**
   * Returns the refs below {@code refs/} that point to each of some objects or to a tag of it. With files, a tag counts
   * outside {@code refs/tags/} only if packed-refs has the object to which it leads, and all loose refs are read, once
   * for all objects.
   */
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

  /** Returns the broken refs, a thousand at most. Every loose ref is checked. */
  public List<BrokenRef> broken() throws EngineException {
    return broken(false);
  }

  /** Returns the broken refs found since the last call, for a log. Each is returned once until it has been repaired. */
  public List<BrokenRef> takeUnreportedBroken() throws EngineException {
    return broken(true);
  }

  /**
   * Returns where packed-refs is unsorted although its header says it is sorted, for a log: once until packed-refs is
   * opened anew.
   */
  public Optional<String> takeUnsortedPackedRefs() throws EngineException {
    return text(handle.call(RefNatives::takeDisorder));
  }

  /**
   * Returns why small batches go to packed-refs although {@code refdb.smallBatches} is {@code auto}, for a log.
   * A reason that no configuration file gives, such as a missing setting, is reported once per process.
   */
  public Optional<String> takeGitPacks() throws EngineException {
    return text(handle.call(RefNatives::takeGitPacks));
  }

  /**
   * Returns lines about the mount of the repository and what it means for refs, in the words of {@code refdb
   * check-storage}; empty if its file system is local.
   */
  public Optional<String> sharedStorage() throws EngineException {
    return text(handle.call(RefNatives::sharedStorage));
  }

  /**
   * Returns why the mount of the repository keeps its refs from being written; empty if they are written, be it because
   * the mount is safe or because {@code refdb.unsafeStorage} permits an unsafe one.
   */
  public Optional<String> storageFault() throws EngineException {
    return text(handle.call(RefNatives::storageFault));
  }

  /**
   * Returns the warning that a trust setting says {@code always} although the repository is on a network file system,
   * for a log: once per mount and process, and for 16 mounts at most.
   */
  public Optional<String> takeIgnoredTrust() throws EngineException {
    return text(handle.call(RefNatives::takeIgnoredTrust));
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
   * @return whether the edits were made, and which were rejected
   * @throws EngineException if the batch failed for another reason than a rejection; some refs may be changed then
   */
  public BatchResult commit(RefBatch batch) throws EngineException {
    return BatchResult.unpack(handle.call(id -> RefNatives.commit(id, batch.pack())));
  }

  /**
   * Commits a batch of edits if an arbiter, which is asked while the refs are locked, agrees.
   *
   * @throws EngineException as {@link #commit(RefBatch)} does; of kind {@code UNDECIDED} if the arbiter does not agree
   *     or gives no answer, if the batch has too many refs for an intent, or if an earlier batch that has one of these
   *     refs, or one whose name conflicts with theirs, is not decided yet; then the path is that of its intent
   */
  public BatchResult commit(RefBatch batch, Arbiter arbiter) throws EngineException {
    return BatchResult.unpack(handle.call(id -> RefNatives.commitAgreed(id, batch.pack(), arbiter)));
  }

  /** Returns the intents that batches wrote before the global ref database was asked, and that still exist. */
  public List<GlobalIntent> globalIntents() throws EngineException {
    return GlobalIntent.unpack(handle.call(id -> RefNatives.globalIntents(id)));
  }

  /** Removes an intent that has been resolved. */
  public void removeGlobalIntent(String intent) throws EngineException {
    handle.run(id -> RefNatives.removeGlobalIntent(id, intent.getBytes(StandardCharsets.UTF_8)));
  }

  /**
   * Reads a reflog.
   *
   * @param skip the number of the newest entries to skip
   * @param max the maximum number of entries to return
   * @return the entries, newest first; empty if there is no reflog
   */
  public List<LogEntry> log(String name, int skip, int max) throws EngineException {
    byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
    return LogEntry.unpack(new Unpacker(handle.call(id -> RefNatives.log(id, bytes, skip, max))));
  }

  /**
   * Converts the refs to the form that is fastest to read: packed, or in a single table.
   *
   * @param all whether to pack all refs, rather than only tags and refs that are packed already (files only)
   */
  public void optimize(boolean all) throws EngineException {
    optimize(all ? ALL | PRUNE : PRUNE, List.of());
  }

  /** Packs some refs in a repository that stores them in files. */
  public void pack(Collection<String> names) throws EngineException {
    optimize(PRUNE, names);
  }

  private void optimize(int flags, Collection<String> patterns) throws EngineException {
    Packer request = new Packer().u8(flags);
    packNames(request, patterns);
    handle.run(id -> RefNatives.optimize(id, request.toByteArray()));
  }

  /** Returns whether the refs are stored in a stack of reftables. */
  public boolean isReftable() throws EngineException {
    return info().u8() == 1;
  }

  /**
   * Returns a number that grows whenever this view changes refs or finds that they differ from what it remembers, or
   * may have missed a change because its files were closed.
   */
  public long version() throws EngineException {
    Unpacker info = info();
    info.u8();
    info.u8();
    return info.i64();
  }

  /** Says that the refs may have changed, so that the next call checks the disk regardless of the trust settings. */
  public void hint() {
    handle.run(id -> RefNatives.hint(id));
  }

  /** Drops the cache of this view and of the others that share it, and reopens the repository. */
  public void flush() throws EngineException {
    handle.run(id -> RefNatives.flush(id));
  }

  /** Compares the cache with the disk, without stopping readers or writers. */
  public VerifyReport verify() throws EngineException {
    return VerifyReport.unpack(handle.call(id -> RefNatives.verify(id)));
  }

  /** Returns the statistics of this view and of the others that share its cache, since the first of them was opened. */
  public RefStats stats() throws EngineException {
    return RefStats.unpack(new Unpacker(handle.call(id -> RefNatives.stats(id))));
  }

  /** Closes this view. Its cache is kept as long as another view that shares it is open. */
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

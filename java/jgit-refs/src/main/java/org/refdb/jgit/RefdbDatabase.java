package org.refdb.jgit;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.eclipse.jgit.api.PackRefsCommand;
import org.eclipse.jgit.events.RefsChangedEvent;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.ProgressMonitor;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.ReflogReader;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.util.FileUtils;
import org.eclipse.jgit.util.RefList;
import org.eclipse.jgit.util.RefMap;
import org.refdb.engine.BatchResult;
import org.refdb.engine.BrokenRef;
import org.refdb.engine.EngineException;
import org.refdb.engine.Planted;
import org.refdb.engine.RefBatch;
import org.refdb.engine.RefListing;
import org.refdb.engine.EngineView;
import org.refdb.engine.EngineViews;
import org.refdb.engine.Unpacker;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A repository's refs, served by refdb's engine in either format.
 *
 * <p>Answers come from the engine, which checks that they are current as far as {@code core.trustStat} and related
 * settings demand. A {@link RequestRefCache} answers only what its request has read before. The rows of the last long
 * list answer the same query again as long as the engine's proof of them stays equal (see {@link LastList}). A ref is
 * an immutable value that outlives this database. The engine notices conversions and replacements of the repository by
 * other programs. Once this is closed, what asks the engine throws a {@link org.refdb.engine.ClosedHandleException}.
 *
 * <p>Where JGit's two databases differ, this one follows {@code RefDirectory}.
 *
 * <p>A ref whose file is corrupt or cannot be read is not listed, and is logged once. Reading it by name is an error,
 * unless the query names other refs that are found. An update can replace or delete it. {@link #getAdditionalRefs}
 * fails as long as there is such a ref, because garbage collection uses that method to learn what to keep.
 */
public final class RefdbDatabase extends RefDatabase {
  private static final Logger logger = LoggerFactory.getLogger(RefdbDatabase.class);

  /**
   * Maximum number of refs that are read back after a batch, so that the next query does not notify listeners again.
   * After a larger batch, listeners may be notified twice.
   */
  private static final int LOOK_BACK_MAX = 32;

  /** Maximum number of attempts to read a list while other machines replace its files on the file server. */
  private static final int LIST_ATTEMPTS_MAX = 8;

  private final Repository repository;
  private final EngineView view;
  /** The cache of the calling thread's request; supplies null outside of one. */
  private final Supplier<RequestRefCache> request;
  /** Grows with each commit, successful or not, and each {@link #refresh}. What requests cached before is void. */
  private final AtomicLong changes = new AtomicLong();
  /** The latest version that any query has found. */
  private final AtomicLong found = new AtomicLong();
  /** The last version that listeners were notified of, or the first one found, which notifies nobody; 0 for none. */
  private final AtomicLong notified = new AtomicLong();
  private volatile LastList lastList;

  private final BatchCommitter committer;

  private RefdbDatabase(
      Repository repository, EngineView view, Supplier<RequestRefCache> request, BatchCommitter committer) {
    this.repository = repository;
    this.view = view;
    this.request = request;
    this.committer = committer;
  }

  /**
   * Opens a repository's refs with the settings that JGit reads from its configuration. Each answer is checked against
   * the disk as far as these settings demand; no request has a cache.
   *
   * @param views the views of this process
   * @param repository a repository in a folder; its own ref database is not used
   * @throws EngineException if the repository cannot be read, or the engine does not support its format or a setting
   */
  public static RefdbDatabase open(EngineViews views, Repository repository) throws EngineException {
    return open(views, repository, () -> null);
  }

  /**
   * Opens a repository's refs with a cache for requests that only read, which may see a ref as of their first read.
   *
   * @param request supplies the cache of the calling thread's request, or null if there is none
   */
  public static RefdbDatabase open(EngineViews views, Repository repository, Supplier<RequestRefCache> request)
      throws EngineException {
    return open(views, repository, request, EngineView::commit);
  }

  /**
   * Opens a repository's refs with a committer that takes part in each update.
   *
   * @param committer commits each batch
   */
  public static RefdbDatabase open(
      EngineViews views, Repository repository, Supplier<RequestRefCache> request, BatchCommitter committer)
      throws EngineException {
    Path folder = repository.getDirectory().toPath().toAbsolutePath();
    EngineView view = views.open(folder, ViewSettings.of(repository.getConfig()));
    RefdbDatabase refs = new RefdbDatabase(repository, view, request, committer);
    refs.logSettings();
    return refs;
  }

  /** Returns the engine's view of these refs, for statistics and verification. */
  public EngineView view() {
    return view;
  }

  Repository repository() {
    return repository;
  }

  /** Creates the folders that a new repository needs; existing ones are kept. */
  @Override
  public void create() throws IOException {
    File folder = repository.getDirectory();
    if (view.isReftable()) {
      FileUtils.mkdirs(new File(folder, Constants.REFTABLE), true);
      return;
    }
    FileUtils.mkdirs(new File(folder, Constants.R_HEADS), true);
    FileUtils.mkdirs(new File(folder, Constants.R_TAGS), true);
  }

  @Override
  public void close() {
    view.close();
  }

  /** Returns false, because update indexes restart when a stack of tables becomes empty, and files have none. */
  @Override
  public boolean hasVersioning() {
    return false;
  }

  @Override
  public boolean performsAtomicTransactions() {
    return true;
  }

  @Override
  public Ref exactRef(String name) throws IOException {
    return notifying(() -> ref(name));
  }

  /** Reads a ref without notifying listeners, for queries of several refs, which notify once at their end. */
  private Ref ref(String name) throws IOException {
    RequestRefCache asked = request.get();
    return asked == null ? readRef(name) : asked.ref(this, changes.get(), name);
  }

  /** Reads a ref from the engine, whatever the cache of a request contains. */
  Ref readRef(String name) throws IOException {
    if (Planted.ON && PlantedRefs.of(this).answers(this, name)) {
      return PlantedRefs.of(this).answer(this, name);
    }
    Unpacker answer = view.lookup(name);
    Ref ref = RefDecoder.resolved(name, answer);
    noteVersion(answer.i64());
    return Planted.ON ? PlantedRefs.of(this).found(this, name, ref) : ref;
  }

  /** A query of refs. */
  private interface Question<T> {
    T ask() throws IOException;
  }

  /** Runs a query, then notifies listeners once of the changes that it found. */
  private <T> T notifying(Question<T> question) throws IOException {
    if (Planted.ON) {
      PlantedRefs.of(this).beginQuestion();
    }
    try {
      return question.ask();
    } finally {
      notifyListeners();
      if (Planted.ON) {
        PlantedRefs.of(this).endQuestion();
      }
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>A broken ref is left out, which is an error only if none of the names is a ref.
   */
  @Override
  public Map<String, Ref> exactRef(String... names) throws IOException {
    return notifying(() -> refs(names));
  }

  private Map<String, Ref> refs(String... names) throws IOException {
    Map<String, Ref> found = new HashMap<>();
    Unpacker answer = view.lookupMany(Arrays.asList(names));
    for (String name : names) {
      Ref ref = RefDecoder.resolved(name, answer);
      if (ref != null) {
        found.put(name, ref);
      }
    }
    noteVersion(answer.i64());
    return found;
  }

  /**
   * {@inheritDoc}
   *
   * <p>A broken ref is passed over, which is an error only if none of the names is a ref.
   */
  @Override
  public Ref firstExactRef(String... names) throws IOException {
    return notifying(() -> firstOf(names));
  }

  private Ref firstOf(String... names) throws IOException {
    EngineException broken = null;
    for (String name : names) {
      try {
        Ref ref = ref(name);
        if (ref != null) {
          return ref;
        }
      } catch (EngineException e) {
        throwUnlessBroken(e);
        broken = broken == null ? e : broken;
      }
    }
    if (broken != null) {
      throw broken;
    }
    return null;
  }

  @Override
  public List<Ref> getRefs() throws IOException {
    return getRefsByPrefix(ALL);
  }

  @Override
  @Deprecated
  public Map<String, Ref> getRefs(String prefix) throws IOException {
    List<Ref> refs = getRefsByPrefix(prefix);
    RefList.Builder<Ref> sorted = new RefList.Builder<>(refs.size());
    refs.forEach(sorted::add);
    // The engine sorts by bytes, JGit by UTF-16 units.
    sorted.sort();
    return new RefMap(prefix, sorted.toRefList(), RefList.emptyList(), RefList.emptyList());
  }

  @Override
  public List<Ref> getRefsByPrefix(String prefix) throws IOException {
    return notifying(() -> list(List.of(prefix), Set.of()));
  }

  @Override
  public List<Ref> getRefsByPrefix(String... prefixes) throws IOException {
    if (Planted.ON && Planted.is("refs-09") && prefixes.length > 1) {
      return getRefsByPrefix(prefixes[0]);
    }
    return prefixes.length == 0 ? List.of() : notifying(() -> list(Arrays.asList(prefixes), Set.of()));
  }

  @Override
  public List<Ref> getRefsByPrefixWithExclusions(String include, Set<String> excludes) throws IOException {
    return notifying(() -> list(List.of(include), excludes));
  }

  private List<Ref> list(Collection<String> prefixes, Collection<String> excluded) throws IOException {
    Ref head = null;
    if (prefixes.stream().anyMatch(Constants.HEAD::startsWith)
        && excluded.stream().noneMatch(Constants.HEAD::startsWith)) {
      head = existing(Constants.HEAD);
    }
    if (Planted.ON && PlantedRefs.of(this).list(prefixes) != null) {
      return PlantedRefs.of(this).list(prefixes);
    }
    for (int attemptsLeft = LIST_ATTEMPTS_MAX - 1; ; attemptsLeft--) {
      try {
        return readList(head, prefixes, excluded);
      } catch (EngineException e) {
        if (e.kind() != EngineException.Kind.REPLACED || attemptsLeft == 0) {
          throw e;
        }
      }
    }
  }

  private List<Ref> readList(Ref head, Collection<String> prefixes, Collection<String> excluded) throws IOException {
    try (RefListing listing = view.list(prefixes, excluded)) {
      noteVersion(listing.version());
      if (listing.hasUnreported()) {
        logProblems();
      }
      List<Ref> refs = new RowList(head, rows(prefixes, excluded, listing));
      if (Planted.ON) {
        PlantedRefs.of(this).listed(prefixes, refs);
      }
      return refs;
    }
  }

  private Rows rows(Collection<String> prefixes, Collection<String> excluded, RefListing listing) throws IOException {
    LastList last = lastList;
    Rows known = last != null && last.isOf(prefixes, excluded) ? last.rows().get() : null;
    if (known != null && last.hasProof(listing.proof())) {
      return known;
    }
    Rows rows = Rows.read(listing, this::existing);
    LastList kept = LastList.takes(rows) ? LastList.of(prefixes, excluded, listing.proof(), rows) : null;
    if (kept != null) {
      lastList = kept;
    }
    return rows;
  }

  /** Returns a ref, or null if it does not exist, leads to nothing or is broken. */
  private Ref existing(String name) throws IOException {
    Ref ref = wholeRef(name);
    return ref == null || ref.getObjectId() == null ? null : ref;
  }

  /** Returns a ref, or null if it does not exist or is broken. */
  private Ref wholeRef(String name) throws IOException {
    try {
      return ref(name);
    } catch (EngineException e) {
      throwUnlessBroken(e);
      return null;
    }
  }

  /** Throws the error unless it concerns a broken ref, in which case problems that were not logged yet are logged. */
  private void throwUnlessBroken(EngineException e) throws EngineException {
    if (e.kind() != EngineException.Kind.BROKEN_REF) {
      throw e;
    }
    logProblems();
  }

  private void logProblems() throws EngineException {
    for (BrokenRef broken : view.takeUnreportedBroken()) {
      logger.warn(
          "{} is left out of lists of refs: {}. Until it is written again or deleted, garbage is not collected here.",
          broken.name(),
          broken.text());
    }
    view.takeUnsortedPackedRefs()
        .ifPresent(text -> logger.warn("{}; until then all of it is read and sorted in memory", text));
    view.takePackingFailure()
        .ifPresent(
            text ->
                logger.warn(
                    "the loose refs of {} cannot be packed, and become more until they can be,"
                        + " so that lists get slow: {}",
                    repository.getDirectory(),
                    text));
    logSettings();
  }

  /** Logs warnings about settings of this repository that have unwanted consequences. */
  private void logSettings() throws EngineException {
    view.takeGitPacks()
        .ifPresent(
            text ->
                logger.warn(
                    "small batches of refs go to packed-refs in {}, and in repositories alike,"
                        + " since git may pack refs by itself: {}",
                    repository.getDirectory(),
                    text));
    view.takeIgnoredTrust().ifPresent(logger::warn);
  }

  @Override
  public boolean hasRefs() throws IOException {
    return notifying(() -> existing(Constants.HEAD) != null || hasShared());
  }

  private boolean hasShared() throws IOException {
    try (RefListing listing = view.list(List.of(), List.of())) {
      noteVersion(listing.version());
      return listing.next() != null;
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>JGit asks for these refs, besides all others, before it deletes unneeded objects, and when it converts refs.
   * This is an error if a ref is broken, because nobody knows which objects that ref needs.
   */
  @Override
  public List<Ref> getAdditionalRefs() throws IOException {
    List<BrokenRef> broken = view.broken();
    if (!broken.isEmpty()) {
      logProblems();
      throw EngineException.ofBrokenRefs(
          "nothing is deleted as garbage, since what these refs hold is not known; write them again or delete them: "
              + broken.stream().map(BrokenRef::text).collect(Collectors.joining("; ")));
    }
    return notifying(
        () -> {
          List<Ref> refs = new ArrayList<>();
          for (String name : additionalRefsNames) {
            Ref ref = ref(name);
            if (ref != null) {
              refs.add(ref);
            }
          }
          return refs;
        });
  }

  /** Returns the refs, including HEAD, that point to the object or to a tag of it. */
  @Override
  public Set<Ref> getTipsWithSha1(ObjectId id) throws IOException {
    return tipsOf(List.of(id)).get(0);
  }

  /**
   * Returns what {@link #getTipsWithSha1} returns for each of many objects, in the order of the ids. With files one
   * walk through the loose refs serves all objects.
   *
   * @param ids distinct object ids
   */
  public List<Set<Ref>> tipsOf(List<? extends ObjectId> ids) throws IOException {
    return notifying(() -> new Tips(repository, view, this::noteVersion).of(ids));
  }

  @Override
  public boolean hasFastTipsWithSha1() {
    return true;
  }

  @Override
  public Ref peel(Ref ref) throws IOException {
    return Peeler.peel(repository, ref);
  }

  @Override
  public boolean isNameConflicting(String name) throws IOException {
    return !getConflictingNames(name).isEmpty();
  }

  @Override
  public Collection<String> getConflictingNames(String name) throws IOException {
    return notifying(
        () -> {
          Collection<String> names = List.copyOf(view.conflicting(name));
          noteVersion(view.version());
          return names;
        });
  }

  @Override
  public RefUpdate newUpdate(String name, boolean detach) throws IOException {
    beginToWrite();
    Ref ref = notifying(() -> wholeRef(name));
    if (ref == null) {
      return new RefdbUpdate(this, new ObjectIdRef.Unpeeled(Ref.Storage.NEW, name, null));
    }
    RefdbUpdate update = new RefdbUpdate(this, ref);
    if (detach && ref.isSymbolic()) {
      update.setDetachingSymbolicRef();
    }
    return update;
  }

  @Override
  public BatchRefUpdate newBatchUpdate() {
    beginToWrite();
    return new RefdbBatchUpdate(this);
  }

  @Override
  public RefRename newRename(String fromName, String toName) throws IOException {
    return new RefdbRename(this, newUpdate(fromName, false), newUpdate(toName, false));
  }

  @Override
  public ReflogReader getReflogReader(String name) throws IOException {
    return exactRef(name) == null ? null : new RefdbReflogReader(view, name);
  }

  @Override
  public ReflogReader getReflogReader(Ref ref) {
    return new RefdbReflogReader(view, ref.getName());
  }

  /** Makes the next query check the disk, even if the settings let the engine trust an earlier answer for a while. */
  @Override
  public void refresh() {
    view.hint();
    changes.incrementAndGet();
  }

  private void beginToWrite() {
    RequestRefCache asked = request.get();
    if (asked != null) {
      asked.write();
    }
  }

  /** Packs all refs or only tags and packed refs, and removes old empty folders; or merges a stack of tables. */
  @Override
  public void packRefs(ProgressMonitor monitor, PackRefsCommand command) throws IOException {
    if (Planted.ON && Planted.is("refs-14")) {
      throw new UnsupportedOperationException("no files to pack");
    }
    monitor.beginTask("Pack refs", ProgressMonitor.UNKNOWN);
    try {
      if (!Planted.ON || !Planted.is("refs-11")) {
        view.optimize(command.isAll());
      }
      if (!view.isReftable()) {
        EmptyFolders.remove(repository.getDirectory());
      }
    } finally {
      monitor.endTask();
    }
  }

  /**
   * Commits a batch of edits, and notifies the listeners if an edit was carried out and no error is thrown. From then
   * on requests no longer use what they have cached.
   */
  BatchResult commit(RefBatch batch) throws IOException {
    try {
      return commitAndNotify(batch);
    } finally {
      changes.incrementAndGet();
    }
  }

  private BatchResult commitAndNotify(RefBatch batch) throws IOException {
    BatchResult result =
        Planted.ON ? PlantedRefs.of(this).commit(this, committer, batch) : committer.commit(view, batch);
    if (result.done() && result.rejections().size() < batch.size()) {
      long version = versionAfter(batch);
      noteVersion(version);
      notified.accumulateAndGet(version, Math::max);
      repository.fireEvent(new RefsChangedEvent());
    }
    return result;
  }

  /** Returns the version after our own change, so that listeners are not notified of it again; 0 if it is unknown. */
  private long versionAfter(RefBatch batch) {
    List<String> names = batch.names();
    try {
      return view.lookupMany(names.subList(0, Math.min(names.size(), LOOK_BACK_MAX))).lastI64();
    } catch (EngineException e) {
      return 0;
    }
  }

  /** Records the version that a query has found. */
  private void noteVersion(long version) {
    if (found.get() < version) {
      found.accumulateAndGet(version, Math::max);
    }
  }

  /** Notifies listeners once of changes by others that a query has found, as JGit does. */
  private void notifyListeners() {
    long version = found.get();
    long last = notified.get();
    if (last < version && notified.compareAndSet(last, version) && last != 0) {
      repository.fireEvent(new RefsNoticedEvent());
    }
  }
}

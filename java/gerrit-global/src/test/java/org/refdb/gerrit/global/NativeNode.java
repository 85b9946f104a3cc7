package org.refdb.gerrit.global;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.ConfigConstants;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.refdb.engine.EngineException;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.EngineViews;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.StoredRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.refs.GlobalCounts;
import org.refdb.gerrit.refs.GlobalSettled;
import org.refdb.jgit.RefdbDatabase;

/** A node in native mode, with one repository: the engine, and etcd asked by {@link NativeMode}. */
final class NativeNode implements AutoCloseable {
  static final String PROJECT = DiskProject.NAME;
  private static final long MEMORY_BYTES = 16 << 20;

  private final Path folder;
  private final EngineViews views;
  private final NativeMode mode;
  private final FileRepository repository;
  RefdbDatabase refs;

  NativeNode(Path folder, GlobalRefs global) throws IOException, EngineLoadException {
    this(folder, new NativeMode(new StoredRefs(new Config()), global));
  }

  NativeNode(Path folder, NativeMode mode) throws IOException, EngineLoadException {
    this.folder = folder;
    this.mode = mode;
    views = EngineViews.open(MEMORY_BYTES, 0);
    repository = new FileRepository(folder.toFile());
    repository.getConfig().setString("refdb", null, "global", "etcd");
    repository.getConfig().save();
    openRefs();
  }

  private void openRefs() throws IOException {
    refs = RefdbDatabase.open(views, repository, () -> null, mode.committer(PROJECT, repository));
    mode.opened(PROJECT, refs.view());
  }

  /** Returns the refs as the plugin's commands see them. They are closed with this node. */
  DiskRefs disk() throws IOException {
    Repository gerrits =
        new FileRepository(folder.toFile()) {
          @Override
          public RefDatabase getRefDatabase() {
            return refs;
          }
        };
    return new DiskRefs(PROJECT, gerrits, new StoredRefs(new Config()));
  }

  /** Closes the refs and opens them again, as Gerrit does after a flush of its caches. */
  void reopen() throws IOException {
    refs.close();
    openRefs();
  }

  /** Converts the repository's refs to reftables if {@code isReftable}. */
  static void convert(Path folder, boolean isReftable) throws IOException {
    if (isReftable) {
      try (FileRepository repository = new FileRepository(folder.toFile())) {
        repository.convertRefStorage(ConfigConstants.CONFIG_REF_STORAGE_REFTABLE, false, false);
      }
    }
  }

  /** Sets a ref, or deletes it where the id is null. */
  RefUpdate.Result set(String ref, ObjectId id) throws IOException {
    RefUpdate update = refs.newUpdate(ref, false);
    update.setForceUpdate(true);
    if (id == null) {
      return update.delete();
    }
    update.setNewObjectId(id);
    return update.update();
  }

  /** Creates refs in one batch. */
  List<ReceiveCommand> create(boolean atomic, List<String> names, ObjectId id) throws IOException {
    return change(atomic, names.stream().map(name -> new ReceiveCommand(ObjectId.zeroId(), id, name)).toList());
  }

  /** Sets refs from one value to another, all or none. */
  List<ReceiveCommand> move(List<String> names, ObjectId from, ObjectId to) throws IOException {
    return change(true, names.stream().map(name -> new ReceiveCommand(from, to, name)).toList());
  }

  List<ReceiveCommand> change(boolean atomic, List<ReceiveCommand> commands) throws IOException {
    BatchRefUpdate batch = refs.newBatchUpdate();
    batch.setAtomic(atomic);
    batch.setAllowNonFastForwards(true);
    batch.addCommand(commands);
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    return commands;
  }

  Optional<ObjectId> value(String ref) throws IOException {
    Ref found = refs.exactRef(ref);
    return Optional.ofNullable(found).map(Ref::getObjectId);
  }

  /** Settles open intents as the administrator's command does. */
  GlobalSettled settle(boolean isDry, List<String> said) throws IOException {
    return mode.settle(PROJECT, refs.view(), isDry, said::add);
  }

  /** Returns the counts that Gerrit's metrics show. */
  GlobalCounts counts() {
    return mode.counts();
  }

  int intents() throws EngineException {
    return refs.view().globalIntents().size();
  }

  /** Returns the files of the intents, which exist even while nobody has the repository open. */
  static List<Path> intentsIn(Path folder) throws IOException {
    Path intents = folder.resolve("refdb-global");
    if (!Files.exists(intents)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(intents)) {
      return files.toList();
    }
  }

  Path folder() {
    return folder;
  }

  @Override
  public void close() {
    refs.close();
    repository.close();
    views.close();
    mode.close();
  }
}

package org.refdb.gerrit.global;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Disks;
import org.refdb.gerrit.global.disk.StoredRefs;

/** A project on a disk, in a folder of its own. */
final class DiskProject implements AutoCloseable {
  static final String NAME = "a/project";

  private final Path folder;
  private final Repository repository;

  private DiskProject(Path folder, Repository repository) {
    this.folder = folder;
    this.repository = repository;
  }

  static DiskProject create() throws IOException {
    Path folder = Files.createTempDirectory("refdb-project");
    Repository repository = new FileRepository(folder.toFile());
    repository.create(true);
    return new DiskProject(folder, repository);
  }

  /** Creates a project with these lines of a packed-refs file, sorted. The objects that the lines name do not exist. */
  static DiskProject withPackedRefs(Stream<String> lines) throws IOException {
    DiskProject project = create();
    List<String> header = List.of("# pack-refs with: peeled fully-peeled sorted ");
    Files.write(
        project.folder.resolve("packed-refs"),
        (Iterable<String>) Stream.concat(header.stream(), lines)::iterator);
    return project;
  }

  interface Opener {
    DiskRefs open() throws IOException;
  }

  /** Returns disks with this project alone, which {@code project} opens. */
  static Disks disks(Opener project) {
    return new Disks() {
      @Override
      public List<String> all() {
        return List.of(NAME);
      }

      @Override
      public DiskRefs open(String name) throws IOException {
        if (!name.equals(NAME)) {
          throw new IOException("there is no " + name);
        }
        return project.open();
      }
    };
  }

  DiskRefs refs() {
    return refs("");
  }

  /** Returns the project's refs under these settings of the module global-refdb. */
  DiskRefs refs(String settings) {
    Config config = new Config();
    try {
      config.fromText(settings);
    } catch (org.eclipse.jgit.errors.ConfigInvalidException e) {
      throw new IllegalArgumentException(e);
    }
    repository.incrementOpen();
    return new DiskRefs(NAME, repository, new StoredRefs(config));
  }

  /** Returns the project's refs, and calls {@code closed} each time that the refs are closed. */
  DiskRefs refs(Callable<Void> closed) throws IOException {
    Repository own =
        new FileRepository(folder.toFile()) {
          @Override
          public void close() {
            super.close();
            try {
              closed.call();
            } catch (Exception e) {
              throw new IllegalStateException(e);
            }
          }
        };
    return new DiskRefs(NAME, own, new StoredRefs(new Config()));
  }

  Path folder() {
    return folder;
  }

  /** Creates the commit with this number: the same number makes the same commit, another number another one. */
  ObjectId commit(int number) throws IOException {
    try (ObjectInserter inserter = repository.newObjectInserter()) {
      CommitBuilder commit = new CommitBuilder();
      commit.setTreeId(inserter.insert(Constants.OBJ_TREE, new byte[0]));
      commit.setAuthor(
          new PersonIdent(
              "A",
              "a@example.com",
              Instant.ofEpochSecond(1_700_000_000L + number),
              ZoneOffset.UTC));
      commit.setCommitter(commit.getAuthor());
      commit.setMessage("commit " + number + "\n");
      ObjectId id = inserter.insert(commit);
      inserter.flush();
      return id;
    }
  }

  ObjectId blob(String text) throws IOException {
    try (ObjectInserter inserter = repository.newObjectInserter()) {
      ObjectId id = inserter.insert(Constants.OBJ_BLOB, text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
      inserter.flush();
      return id;
    }
  }

  byte[] read(ObjectId id) throws IOException {
    return repository.open(id).getBytes();
  }

  /** Sets a ref on the disk without asking etcd, as git does; deletes it if {@code id} is null. */
  void set(String ref, ObjectId id) throws IOException {
    RefUpdate update = repository.getRefDatabase().newUpdate(ref, true);
    update.setForceUpdate(true);
    RefUpdate.Result result;
    if (id == null) {
      result = update.delete();
    } else {
      update.setNewObjectId(id);
      result = update.update();
    }
    if (!List.of(RefUpdate.Result.NEW, RefUpdate.Result.FORCED, RefUpdate.Result.FAST_FORWARD).contains(result)) {
      throw new IOException(ref + ": " + result);
    }
  }

  @Override
  public void close() throws IOException {
    repository.close();
    Folders.delete(folder);
  }
}

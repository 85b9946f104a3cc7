package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.TagBuilder;
import org.eclipse.jgit.lib.TreeFormatter;
import org.eclipse.jgit.storage.file.FileBasedConfig;
import org.eclipse.jgit.util.FS;
import org.eclipse.jgit.util.SystemReader;
import org.refdb.engine.EngineLoadException;
import org.refdb.engine.EngineViews;

/** Repositories for tests, with objects in them, and a configuration that does not depend on this machine. */
final class Lab {
  static final PersonIdent WHO =
      new PersonIdent(
          "A U Thor", "author@example.com", Instant.ofEpochSecond(1_700_000_000L), ZoneOffset.ofHours(1));

  private static EngineViews views;

  static {
    SystemReader.setInstance(new CleanSystem(SystemReader.getInstance()));
  }

  private Lab() {}

  /** Returns the engine's views of this JVM. */
  static synchronized EngineViews views() throws EngineLoadException {
    if (views == null) {
      views = EngineViews.open(64 << 20, 0);
    }
    return views;
  }

  /**
   * Waits until background pack-refs has run more often than before and is not running, because a run would be in the
   * way of removing the folder.
   */
  static void awaitFolds(Path gitDir, long before) throws Exception {
    Path lock = gitDir.resolve("packed-refs.refdb-fold.lock");
    long deadline = System.nanoTime() + Duration.ofMinutes(2).toNanos();
    for (int quiet = 0; quiet < 30; Thread.sleep(10)) {
      assertTrue(System.nanoTime() < deadline, "loose refs are not folded: " + views().holdings());
      quiet = views().holdings().folds() == before || Files.exists(lock) ? 0 : quiet + 1;
    }
  }

  enum Format {
    FILES,
    REFTABLE
  }

  /** Creates a bare repository without refs except an unborn HEAD. */
  static Path create(Path folder, Format format) throws IOException {
    File gitDir = folder.toFile();
    try (FileRepository repository = new FileRepository(gitDir)) {
      repository.create(true);
      if (format == Format.REFTABLE) {
        repository.convertRefStorage("reftable", false, false);
        // JGit's conversion loses a HEAD whose branch is unborn.
        repository.updateRef(Constants.HEAD).link(Constants.R_HEADS + Constants.MASTER);
      }
    }
    return folder;
  }

  static RefdbRepository open(Path gitDir) throws IOException, EngineLoadException {
    return RefdbRepository.open(gitDir.toFile(), views());
  }

  /** Opens a repository with plain JGit. */
  static FileRepository openPlain(Path gitDir) throws IOException {
    return new FileRepository(gitDir.toFile());
  }

  /** Commits, each the parent of the next, an annotated tag of the last, and a blob. */
  record Objects(List<ObjectId> commits, ObjectId tag, ObjectId blob) {}

  static Objects objects(Path gitDir, int commits) throws IOException {
    List<ObjectId> made = new ArrayList<>();
    try (FileRepository repository = openPlain(gitDir);
        ObjectInserter inserter = repository.newObjectInserter()) {
      ObjectId tree = inserter.insert(new TreeFormatter());
      for (int i = 0; i < commits; i++) {
        CommitBuilder commit = new CommitBuilder();
        commit.setTreeId(tree);
        commit.setAuthor(WHO);
        commit.setCommitter(WHO);
        commit.setMessage("Commit " + i);
        if (i > 0) {
          commit.setParentId(made.get(i - 1));
        }
        made.add(inserter.insert(commit));
      }
      TagBuilder tag = new TagBuilder();
      tag.setObjectId(made.get(commits - 1), Constants.OBJ_COMMIT);
      tag.setTag("v1");
      tag.setTagger(WHO);
      tag.setMessage("Version 1");
      ObjectId tagId = inserter.insert(tag);
      ObjectId blob = inserter.insert(Constants.OBJ_BLOB, "text".getBytes(StandardCharsets.UTF_8));
      inserter.flush();
      return new Objects(List.copyOf(made), tagId, blob);
    }
  }

  static void write(Path file, String text) throws IOException {
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }

  /** Hides every configuration except the repository's own. */
  private static final class CleanSystem extends SystemReader.Delegate {
    private static final File NOWHERE = new File(System.getProperty("java.io.tmpdir"), "refdb-test-no-config");

    CleanSystem(SystemReader delegate) {
      super(delegate);
    }

    @Override
    public FileBasedConfig openUserConfig(Config parent, FS fs) {
      return empty(parent, fs);
    }

    @Override
    public FileBasedConfig openSystemConfig(Config parent, FS fs) {
      return empty(parent, fs);
    }

    @Override
    public FileBasedConfig openJGitConfig(Config parent, FS fs) {
      return empty(parent, fs);
    }

    private static FileBasedConfig empty(Config parent, FS fs) {
      return new FileBasedConfig(parent, NOWHERE, fs) {
        @Override
        public void load() {}

        @Override
        public boolean isOutdated() {
          return false;
        }
      };
    }
  }
}

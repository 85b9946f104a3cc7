package org.refdb.bench.refs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Repository;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Atomic batches, synced; each iteration measures one. */
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(java.util.concurrent.TimeUnit.MILLISECONDS)
public class Writes {
  /** A repository that changes are made in. */
  @State(Scope.Benchmark)
  public static class Changing {
    /** Who writes. */
    @Param({"JGIT_FILES", "JGIT_REFTABLE", "REFDB_FILES", "REFDB_REFTABLE"})
    public Engine engine;

    /** How many refs there are to begin with. */
    @Param("100000")
    public int refs;

    private Path folder;
    private Repository repository;
    private ObjectId commit;
    private int made;

    @Setup
    public void open() throws IOException {
      folder = Files.createTempDirectory(Path.of(System.getProperty("refs.folder")), "writes");
      Path gitDir = folder.resolve("r.git");
      repository = engine.open(Laboratory.create(gitDir, engine.isReftable(), Laboratory.names(refs)));
      commit = Laboratory.commit(repository);
    }

    @TearDown
    public void close() throws IOException {
      repository.close();
      engine.forget(repository.getDirectory());
      Laboratory.remove(folder);
    }

    private List<String> change(int number) {
      String folder = String.format("refs/changes/%02d/9%07d/", number % 100, number);
      return List.of(folder + 1, folder + "meta");
    }
  }

  /** Creates the two refs of a new change. */
  @Benchmark
  public void newChange(Changing repo) throws IOException {
    Laboratory.createRefs(repo.repository, repo.change(repo.made++), repo.commit);
  }

  /** The names of the refs that a batch makes, which are new ones for each invocation. */
  @State(Scope.Thread)
  public static class Batch {
    /** How many refs a batch makes. */
    @Param("10000")
    public int batch;

    private final List<String> names = new ArrayList<>();

    @Setup(Level.Invocation)
    public void fill(Changing repo) {
      names.clear();
      while (names.size() < batch) {
        names.addAll(repo.change(repo.made++));
      }
    }
  }

  /** Very many new refs, two in each folder. */
  @Benchmark
  public void bulk(Changing repo, Batch batch) throws IOException {
    Laboratory.createRefs(repo.repository, batch.names, repo.commit);
  }
}

package org.refdb.bench.refs;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Questions to a repository that nobody changes, with everything warm, and opening it. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(java.util.concurrent.TimeUnit.MICROSECONDS)
public class Reads {
  private static final int HOT = 100;
  /** How many refs one question asks for: the patch sets and notes of a page of changes. */
  private static final int MANY = 75;
  /** The distance from one look-up to the next in the list of names, with whose length it has no common divisor. */
  private static final int STRIDE = 790_211;

  /** Who answers. */
  @Param({"JGIT_FILES", "JGIT_REFTABLE", "REFDB_FILES", "REFDB_REFTABLE"})
  public Engine engine;

  /** How many refs there are. */
  @Param("1500000")
  public int refs;

  private File gitDir;
  private Repository repository;
  private List<String> names;
  private String[] hot;
  private String[] many;
  private int at;

  @Setup
  public void open() throws IOException {
    names = Laboratory.names(refs);
    Path folder = Path.of(System.getProperty("refs.folder"));
    Path made = folder.resolve("reads-" + (engine.isReftable() ? "reftable-" : "files-") + refs + ".git");
    gitDir = made.toFile();
    if (Files.notExists(made)) {
      // The next benchmark reads the same repository: nobody changes it, and making one takes longer than measuring.
      Path unfinished = Files.createTempDirectory(folder, "making").resolve("r.git");
      Laboratory.create(unfinished, engine.isReftable(), names);
      Files.move(unfinished, made);
    }
    repository = engine.open(gitDir);
    hot = spread(HOT);
    many = spread(MANY);
  }

  @TearDown
  public void close() throws IOException {
    repository.close();
    engine.forget(gitDir);
  }

  private String[] spread(int count) {
    List<String> spread = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      spread.add(names.get((int) ((long) i * names.size() / count)));
    }
    return spread.toArray(String[]::new);
  }

  /** Looks up one ref out of a hundred that are asked for in turn. */
  @Benchmark
  public Ref exactRef() throws IOException {
    at = (at + 1) % hot.length;
    return there(repository.exactRef(hot[at]));
  }

  /** Looks up any of all refs. */
  @Benchmark
  public Ref exactRefAnywhere() throws IOException {
    at = (at + STRIDE) % names.size();
    return there(repository.exactRef(names.get(at)));
  }

  /** 75 refs with one question. */
  @Benchmark
  public Map<String, Ref> exactRefs() throws IOException {
    Map<String, Ref> found = repository.getRefDatabase().exactRef(many);
    if (found.size() != many.length) {
      throw new IllegalStateException(found.size() + " of " + many.length);
    }
    return found;
  }

  /** Every name and id of the changes, again and again. */
  @Benchmark
  public int list() throws IOException {
    return sum(repository.getRefDatabase().getRefsByPrefix("refs/changes/"));
  }

  /** Lists with another exclusion each time, so that no answer is the list that the question before got. */
  @Benchmark
  public int listAnew() throws IOException {
    at++;
    return sum(repository.getRefDatabase().getRefsByPrefixWithExclusions("refs/changes/", Set.of("refs/none/" + at)));
  }

  private int sum(List<Ref> refs) {
    int sum = 0;
    int count = 0;
    for (Ref ref : refs) {
      sum += ref.getName().length() + ref.getObjectId().hashCode();
      count++;
    }
    if (count != names.size() - 1) {
      throw new IllegalStateException(count + " refs of " + names.size());
    }
    return sum;
  }

  /** The refs of one change. */
  @Benchmark
  public List<Ref> listChange() throws IOException {
    at = (at + STRIDE) % (names.size() - 1);
    String name = names.get(at);
    return repository.getRefDatabase().getRefsByPrefix(name.substring(0, name.lastIndexOf('/') + 1));
  }

  /** The refs that hold an object. */
  @Benchmark
  public Set<Ref> tips() throws IOException {
    at = (at + STRIDE) % names.size();
    ObjectId id = Laboratory.id(at);
    Set<Ref> tips = repository.getRefDatabase().getTipsWithSha1(id);
    if (tips.isEmpty()) {
      throw new IllegalStateException("nothing holds " + id);
    }
    return tips;
  }

  /** Opening a repository whose refs this process has not cached, the first look-up, and closing. */
  @Benchmark
  public Ref openAndLookUp() throws IOException {
    engine.forget(gitDir);
    try (Repository fresh = engine.open(gitDir)) {
      return there(fresh.exactRef(hot[1]));
    }
  }

  private static Ref there(Ref ref) {
    if (ref == null) {
      throw new IllegalStateException("a ref is missing");
    }
    return ref;
  }
}

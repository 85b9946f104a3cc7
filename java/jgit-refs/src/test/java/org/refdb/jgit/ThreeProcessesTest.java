package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.errors.LockFailedException;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A JVM with refdb, one with JGit's own ref database, and C git write to one repository while it is packed.
 *
 * <p>All of them move one ref along a chain of commits, each step by a compare-and-set. Every step that was
 * acknowledged must have been made, so that there are as many of them as commits that the ref has passed. Each of them
 * also creates refs of its own, which must all be there in the end.
 *
 * <p>If refs are in tables JGit does not take part, because it loses refs beside C git even without refdb.
 */
class ThreeProcessesTest {
  private static final String SHARED = "refs/heads/shared";
  private static final int STEPS = 40;
  private static final int OWN = 25;
  private static final int PAIRS = 60;
  private static final List<String> HALVES = List.of("1", "meta");
  private static final List<String> OWNERS = List.of("a", "b", "c");

  @TempDir Path folder;

  @Test
  void nothingIsLostAmongFiles() throws Exception {
    run(Lab.Format.FILES);
  }

  @Test
  void nothingIsLostAmongTables() throws Exception {
    run(Lab.Format.REFTABLE);
  }

  /**
   * refdb creates pairs of refs, which become loose files and are packed in the background. JGit and C git write beside
   * it, and C git packs. A pair that was acknowledged is there for JGit, and in the end for all.
   */
  @Test
  void smallBatchesThatAreLooseLoseNothing() throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.FILES);
    List<ObjectId> chain = Lab.objects(gitDir, STEPS + 1).commits();
    // A batch becomes loose files only if packed-refs has 512 KiB for each of its refs.
    StringBuilder packed = new StringBuilder("# pack-refs with: peeled fully-peeled sorted \n");
    for (int i = 0; i < 20_000; i++) {
      packed.append(chain.get(0).name()).append(String.format(" refs/old/%06d\n", i));
    }
    Lab.write(gitDir.resolve("packed-refs"), packed.toString());
    Files.writeString(gitDir.resolve("config"), "[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 40\n",
        StandardOpenOption.APPEND);
    long folds = Lab.views().holdings().folds();
    ExecutorService threads = Executors.newCachedThreadPool();
    try (RefdbRepository repository = Lab.open(gitDir);
        Repository plain = Lab.openPlain(gitDir)) {
      RefdbDatabaseTest.set(repository, SHARED, chain.get(0));
      List<Future<Integer>> movers =
          List.of(
              threads.submit(() -> moveAndMake(repository, chain, "one")),
              threads.submit(new GitWriter(gitDir, chain)),
              threads.submit(() -> otherJvm(gitDir, chain)));
      List<Future<Integer>> makers =
          List.of(threads.submit(() -> makePairs(repository, plain, chain, "a")),
              threads.submit(() -> makePairs(repository, plain, chain, "b")));
      while (!Stream.concat(movers.stream(), makers.stream()).allMatch(Future::isDone)) {
        CGit.run(gitDir, "pack-refs", "--all"); // it gives up where a lock is held for long
        Thread.sleep(20);
      }
      int steps = 0;
      for (Future<Integer> mover : movers) {
        steps += mover.get();
      }
      int loose = 0;
      for (Future<Integer> maker : makers) {
        loose += maker.get();
      }
      // On a fast machine C git has packed before enough refs were loose for refdb to pack them. By now C git rests.
      loose += makePairs(repository, plain, chain, "c");
      Lab.awaitFolds(gitDir, folds);
      assertTrue(loose > 0, "small batches are loose");
      assertEquals(STEPS, steps, "steps that were made, and steps that somebody made");
      for (Repository each : List.of(repository, plain)) {
        assertOwnRefs(each, List.of("one", "git", "jgit"));
        assertPairs(each, chain);
      }
      String byGit = CGit.read(gitDir, "for-each-ref", "--format=%(refname)", "refs/pairs/");
      assertEquals(HALVES.size() * OWNERS.size() * PAIRS, byGit.lines().count());
      assertTrue(((RefdbDatabase) repository.getRefDatabase()).view().verify().differences().isEmpty());
      try (Stream<Path> left = Files.walk(gitDir.resolve("refs"))) {
        assertEquals(List.of(), left.filter(file -> file.toString().endsWith(".lock")).toList());
      }
    } finally {
      threads.shutdownNow();
    }
  }

  private static String pair(String owner, int i, String half) {
    return "refs/pairs/" + i + "/" + owner + "/" + half;
  }

  /** Creates pairs, and returns how many of them were loose files when they were acknowledged. */
  private static int makePairs(Repository repository, Repository plain, List<ObjectId> chain, String owner)
      throws Exception {
    int loose = 0;
    for (int i = 0; i < PAIRS; i++) {
      ObjectId id = chain.get(i % chain.size());
      BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate().setAtomic(true);
      for (String half : HALVES) {
        batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), id, pair(owner, i, half)));
      }
      try (RevWalk walk = new RevWalk(repository)) {
        batch.execute(walk, NullProgressMonitor.INSTANCE);
      }
      for (ReceiveCommand command : batch.getCommands()) {
        assertEquals(ReceiveCommand.Result.OK, command.getResult(), command + " " + command.getMessage());
        assertEquals(id, seen(plain, command.getRefName()), command.getRefName() + " as JGit sees it");
      }
      loose += Files.exists(repository.getDirectory().toPath().resolve(pair(owner, i, HALVES.getFirst()))) ? 1 : 0;
    }
    return loose;
  }

  /**
   * Returns what JGit sees, at the fifth attempt at the latest. It reads packed-refs and then the loose file, and so
   * sees neither if the ref is packed in between, also beside git.
   */
  private static ObjectId seen(Repository plain, String name) throws IOException {
    for (int i = 0; i < 5; i++) {
      Ref ref = plain.exactRef(name);
      if (ref != null) {
        return ref.getObjectId();
      }
    }
    return null;
  }

  private static void assertPairs(Repository repository, List<ObjectId> chain) throws IOException {
    for (String owner : OWNERS) {
      for (int i = 0; i < PAIRS; i++) {
        for (String half : HALVES) {
          Ref ref = repository.exactRef(pair(owner, i, half));
          assertTrue(
              ref != null && ref.getObjectId().equals(chain.get(i % chain.size())),
              pair(owner, i, half) + " is lost");
        }
      }
    }
  }

  private void run(Lab.Format format) throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), format);
    List<ObjectId> chain = Lab.objects(gitDir, STEPS + 1).commits();
    ExecutorService threads = Executors.newCachedThreadPool();
    try (RefdbRepository repository = Lab.open(gitDir)) {
      RefdbDatabaseTest.set(repository, SHARED, chain.get(0));
      List<Future<Integer>> writers = new ArrayList<>();
      writers.add(threads.submit(() -> moveAndMake(repository, chain, "one")));
      writers.add(threads.submit(() -> moveAndMake(repository, chain, "two")));
      writers.add(threads.submit(new GitWriter(gitDir, chain)));
      List<String> owners = new ArrayList<>(List.of("one", "two", "git"));
      if (format == Lab.Format.FILES) {
        writers.add(threads.submit(() -> otherJvm(gitDir, chain)));
        owners.add("jgit");
      }
      Future<?> packing = threads.submit(() -> packAll(repository, writers));
      int steps = 0;
      for (Future<Integer> writer : writers) {
        steps += writer.get();
      }
      packing.get();
      assertEquals(chain.get(STEPS), repository.exactRef(SHARED).getObjectId());
      assertEquals(STEPS, steps, "steps that were made, and steps that somebody made");
      assertOwnRefs(repository, owners);
      try (Repository plain = Lab.openPlain(gitDir)) {
        assertOwnRefs(plain, owners);
      }
      assertTrue(((RefdbDatabase) repository.getRefDatabase()).view().verify().differences().isEmpty());
    } finally {
      threads.shutdownNow();
    }
  }

  private static void assertOwnRefs(Repository repository, List<String> owners) throws IOException {
    for (String owner : owners) {
      for (int i = 0; i < OWN; i++) {
        Ref ref = repository.exactRef(own(owner, i));
        assertTrue(ref != null, own(owner, i) + " is lost");
      }
    }
  }

  private static String own(String owner, int i) {
    return "refs/changes/" + i + "/" + owner;
  }

  private static Void packAll(Repository repository, List<Future<Integer>> writers) throws Exception {
    while (writers.stream().anyMatch(writer -> !writer.isDone())) {
      Git.wrap(repository).packRefs().setAll(true).call();
      Thread.sleep(20);
    }
    return null;
  }

  /**
   * Moves the shared ref until it is at the end of the chain, and creates refs of its own on the way. Returns the
   * number of its steps.
   */
  private static int moveAndMake(Repository repository, List<ObjectId> chain, String owner) throws IOException {
    int steps = 0;
    int made = 0;
    while (true) {
      if (made < OWN) {
        make(repository, own(owner, made++), chain.get(0));
      }
      int at = chain.indexOf(repository.exactRef(SHARED).getObjectId());
      if (at < chain.size() - 1) {
        steps += step(repository, chain.get(at), chain.get(at + 1)) ? 1 : 0;
      } else if (made == OWN) {
        return steps;
      }
    }
  }

  private static boolean step(Repository repository, ObjectId from, ObjectId to) throws IOException {
    RefUpdate update = repository.updateRef(SHARED);
    update.setExpectedOldObjectId(from);
    update.setNewObjectId(to);
    try {
      return update.update() == RefUpdate.Result.FAST_FORWARD;
    } catch (LockFailedException e) {
      return false;
    }
  }

  private static void make(Repository repository, String name, ObjectId id) throws IOException {
    while (true) {
      RefUpdate update = repository.updateRef(name);
      update.setNewObjectId(id);
      switch (update.update()) {
        case NEW, NO_CHANGE -> {
          return;
        }
        case LOCK_FAILURE -> {}
        default -> throw new IOException(name + ": " + update.getResult());
      }
    }
  }

  private static int otherJvm(Path gitDir, List<ObjectId> chain) throws Exception {
    List<String> arguments = new ArrayList<>(List.of(gitDir.toString()));
    chain.forEach(id -> arguments.add(id.name()));
    Process child = ChildJvm.start(PlainWriter.class, List.of("-Xmx128m"), arguments);
    String steps = ChildJvm.lastLine(child);
    assertEquals(0, child.waitFor());
    return Integer.parseInt(steps);
  }

  /** The program of the JVM with JGit's own ref database. */
  static final class PlainWriter {
    private PlainWriter() {}

    public static void main(String[] args) throws IOException {
      List<ObjectId> chain = new ArrayList<>();
      for (int i = 1; i < args.length; i++) {
        chain.add(ObjectId.fromString(args[i]));
      }
      try (Repository repository = Lab.openPlain(Path.of(args[0]))) {
        System.out.println(moveAndMake(repository, chain, "jgit"));
      }
    }
  }

  /** Writes with C git, which is started for each step. */
  private record GitWriter(Path gitDir, List<ObjectId> chain) implements Callable<Integer> {
    @Override
    public Integer call() throws Exception {
      int steps = 0;
      for (int made = 0; ; ) {
        if (made < OWN && CGit.run(gitDir, "update-ref", own("git", made), chain.get(0).name())) {
          made++;
        }
        int at = chain.indexOf(ObjectId.fromString(CGit.read(gitDir, "rev-parse", SHARED)));
        if (at == chain.size() - 1) {
          if (made == OWN) {
            return steps;
          }
          continue;
        }
        steps += CGit.run(gitDir, "update-ref", SHARED, chain.get(at + 1).name(), chain.get(at).name()) ? 1 : 0;
      }
    }
  }
}

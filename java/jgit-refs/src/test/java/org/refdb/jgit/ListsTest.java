package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Lists of more than a few refs, whose rows are shared as long as nothing changes. */
class ListsTest {
  /** Enough refs for a list of several chunks. */
  private static final int REFS = 9000;

  /** Enough packed refs for a list that is read from the disk in many parts. */
  private static final int PACKED = 20_000;

  @TempDir Path folder;
  private Path gitDir;
  private Lab.Objects objects;

  private RefdbRepository open(Lab.Format format, int refs) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), format);
    objects = Lab.objects(gitDir, 3);
    RefdbRepository repository = Lab.open(gitDir);
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    for (int i = 0; i < refs; i++) {
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), objects.commits().get(0), name(i)));
    }
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    return repository;
  }

  /** Lists refs while another thread replaces packed-refs, as another machine does on a network file system. */
  static final class Lister {
    private static final int LISTS = 100;
    private static final long PAUSE_MILLIS = 60;
    private static final AtomicInteger LISTED = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
      Path gitDir = Path.of(arguments[0]);
      Thread replacer = new Thread(() -> replace(gitDir.resolve("packed-refs")));
      replacer.setDaemon(true);
      replacer.start();
      try (RefdbRepository repository = Lab.open(gitDir)) {
        for (int i = 0; i < LISTS; i++) {
          assertEquals(PACKED, repository.getRefDatabase().getRefsByPrefix("refs/").size());
          LISTED.incrementAndGet();
        }
      }
      System.out.println(LISTS + " lists");
    }

    private static void replace(Path packedRefs) {
      try {
        byte[] content = Files.readAllBytes(packedRefs);
        Path next = packedRefs.resolveSibling("packed-refs.new");
        while (true) {
          int listed = LISTED.get();
          Files.write(next, content);
          Files.move(next, packedRefs, StandardCopyOption.ATOMIC_MOVE);
          Thread.sleep(PAUSE_MILLIS);
          // On a busy machine, a list takes longer than the pause, and would lose its file in each attempt.
          while (LISTED.get() == listed) {
            Thread.sleep(1);
          }
        }
      } catch (IOException | InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  @Test
  void aListBeginsAgainWhenItsFileWasReplacedOnTheServer() throws Exception {
    Path repository = Lab.create(folder.resolve("lost.git"), Lab.Format.FILES);
    ObjectId commit = Lab.objects(repository, 1).commits().get(0);
    StringBuilder packed = new StringBuilder("# pack-refs with: peeled fully-peeled sorted \n");
    for (int i = 0; i < PACKED; i++) {
      packed.append(commit.name()).append(String.format(" refs/changes/%06d/1\n", i));
    }
    Lab.write(repository.resolve("packed-refs"), packed.toString());
    // With this fault an open file cannot be read any more once its last name is gone.
    Map<String, String> fault = Map.of("REFDB_PLANTED_FAULT", "vfs-stale");
    Process child = ChildJvm.startWith(fault, Lister.class, List.of(repository.toString()));
    String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(said.endsWith("100 lists\n"), said);
  }

  private static String name(int i) {
    return "refs/changes/" + String.format("%06d", i) + (i % 3 == 0 ? "/größe" : "/meta");
  }

  private static List<String> shown(List<Ref> refs) {
    List<String> shown = new ArrayList<>();
    for (Ref ref : refs) {
      shown.add(ref.getName() + ' ' + (ref.isSymbolic() ? ref.getTarget().getName() : "") + ref.getObjectId().name());
    }
    return shown;
  }

  @ParameterizedTest
  @EnumSource
  void everyWayOfReadingAListGivesTheSameRefs(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format, REFS)) {
      RefdbDatabaseTest.set(repository, "refs/heads/master", objects.commits().get(1));
      CGit.run(gitDir, "symbolic-ref", "refs/changes/000005/link", "refs/heads/master");
      CGit.run(gitDir, "symbolic-ref", "refs/changes/000006/nowhere", "refs/heads/none");
      List<Ref> all = repository.getRefDatabase().getRefs();
      List<String> walked = shown(all);
      assertEquals(REFS + 3, walked.size(), "HEAD and master, the link that leads to something");
      assertEquals(walked, shown(List.copyOf(all)));
      assertEquals(walked, shown(all.stream().parallel().toList()));
      for (int i : new Random(1).ints(500, 0, all.size()).toArray()) {
        assertEquals(walked.get(i), shown(all.subList(i, i + 1)).get(0));
      }
      assertThrows(IndexOutOfBoundsException.class, () -> all.get(walked.size()));
      assertThrows(IndexOutOfBoundsException.class, () -> all.get(-1));
      Iterator<Ref> iterator = all.iterator();
      while (iterator.hasNext()) {
        iterator.next();
      }
      assertThrows(NoSuchElementException.class, iterator::next);
      try (Repository plain = Lab.openPlain(gitDir)) {
        assertEquals(Set.copyOf(shown(plain.getRefDatabase().getRefs())), Set.copyOf(walked));
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void aListThatIsAskedForAgainSharesItsRowsUntilSomeoneChangesARef(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format, 200)) {
      RefDatabase refs = repository.getRefDatabase();
      // A packed-refs that was changed less than 50 ms ago proves nothing by its timestamp, and would be read again.
      Thread.sleep(100);
      RowList first = (RowList) refs.getRefs();
      assertSame(first.rows(), ((RowList) refs.getRefs()).rows());
      assertNotSame(first.rows(), ((RowList) refs.getRefsByPrefix("refs/")).rows(), "not the same words");
      RowList before = (RowList) refs.getRefs();
      String changed = name(7);
      CGit.run(gitDir, "update-ref", changed, objects.commits().get(2).name());
      RowList after = (RowList) refs.getRefs();
      assertNotSame(before.rows(), after.rows());
      assertEquals(objects.commits().get(2).name(), shown(after).get(7).split(" ")[1]);
      assertEquals(objects.commits().get(0).name(), shown(before).get(7).split(" ")[1], "a list never changes");
    }
  }

  @ParameterizedTest
  @EnumSource
  void headIsLookedAtAlsoWhereTheOtherRowsAreThoseOfTheLastList(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format, 200)) {
      RefDatabase refs = repository.getRefDatabase();
      assertEquals(name(0), refs.getRefs().get(0).getName(), "HEAD leads to nothing");
      CGit.run(gitDir, "symbolic-ref", "HEAD", name(3));
      Ref head = refs.getRefs().get(0);
      assertEquals("HEAD", head.getName());
      assertEquals(name(3), head.getTarget().getName());
      CGit.run(gitDir, "symbolic-ref", "HEAD", name(4));
      assertEquals(name(4), refs.getRefs().get(0).getTarget().getName());
    }
  }

  /** The target of a symbolic ref may change while the rows stay the same. */
  @ParameterizedTest
  @EnumSource
  void aSymbolicRefInAListIsFollowedEachTime(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format, 200)) {
      RefdbDatabaseTest.set(repository, "refs/heads/master", objects.commits().get(0));
      CGit.run(gitDir, "symbolic-ref", name(0) + "x", "refs/heads/master");
      RefDatabase refs = repository.getRefDatabase();
      assertEquals(objects.commits().get(0), refs.getRefsByPrefix("refs/changes/").get(1).getObjectId());
      CGit.run(gitDir, "update-ref", "refs/heads/master", objects.commits().get(1).name());
      assertEquals(objects.commits().get(1), refs.getRefsByPrefix("refs/changes/").get(1).getObjectId());
    }
  }

  /** A symbolic ref may be the only ref in the last chunk that the library returns, and lead to nothing. */
  @ParameterizedTest
  @EnumSource
  void aSymbolicRefToNothingIsFollowedEachTimeWhereverTheListIsDivided(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format, 0)) {
      CGit.run(gitDir, "symbolic-ref", "refs/c/z", "refs/heads/target");
      RefDatabase refs = repository.getRefDatabase();
      for (int count = 1; count <= 180; count++) {
        RefdbDatabaseTest.set(repository, "refs/c/" + (1000 + count), objects.commits().get(0));
        if (count >= 100) {
          assertEquals(count, refs.getRefsByPrefix("refs/c/").size());
          RefdbDatabaseTest.set(repository, "refs/heads/target", objects.commits().get(1));
          assertEquals(count + 1, refs.getRefsByPrefix("refs/c/").size());
          RefUpdate deletion = repository.updateRef("refs/heads/target");
          deletion.setForceUpdate(true);
          assertEquals(RefUpdate.Result.FORCED, deletion.delete());
        }
      }
    }
  }

  /** Lists must be right whoever changes refs, and however. */
  @ParameterizedTest
  @EnumSource
  void listsAreThoseOfPlainJgitWhateverChangesRefs(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format, 150)) {
      RefDatabase refs = repository.getRefDatabase();
      Random random = new Random(20);
      for (int step = 0; step < 60; step++) {
        String name = name(random.nextInt(160));
        ObjectId id = objects.commits().get(random.nextInt(3));
        switch (random.nextInt(6)) {
          case 0 -> RefdbDatabaseTest.set(repository, name, id);
          case 1 -> CGit.run(gitDir, "update-ref", name, id.name());
          case 2 -> CGit.run(gitDir, "update-ref", "-d", name);
          case 3 -> CGit.run(gitDir, "pack-refs", "--all");
          case 4 -> CGit.run(gitDir, "symbolic-ref", "HEAD", name);
          default -> {}
        }
        for (int again = 0; again < 2; again++) {
          try (Repository plain = Lab.openPlain(gitDir)) {
            assertEquals(shown(plain.getRefDatabase().getRefs()), shown(refs.getRefs()), "step " + step);
          }
        }
      }
    }
  }
}

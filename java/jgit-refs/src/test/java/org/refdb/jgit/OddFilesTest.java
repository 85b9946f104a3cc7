package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests unusual contents of the files of refs: an order that a header claims and the lines do not have, tags without
 * peeled lines, and reflog messages that are longer than a block.
 */
class OddFilesTest {
  private static final String HEADER = "# pack-refs with: peeled fully-peeled sorted \n";

  @TempDir Path folder;

  private static List<String> names(List<Ref> refs) {
    return refs.stream().map(Ref::getName).sorted().toList();
  }

  @Test
  void aPackedRefsOutOfOrderIsCountedAndToldOfOnceAndHidesNothing() throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.FILES);
    String id = Lab.objects(gitDir, 1).commits().get(0).name();
    Lab.write(
        gitDir.resolve("packed-refs"),
        HEADER + id + " refs/heads/a\n" + id + " refs/xeads/b\n" + id + " refs/heads/c\n");
    try (RefdbRepository repository = Lab.open(gitDir)) {
      RefdbDatabase refs = (RefdbDatabase) repository.getRefDatabase();
      assertEquals(0, refs.view().stats().unsorted());
      for (int round = 0; round < 2; round++) {
        assertEquals(List.of("refs/heads/a", "refs/heads/c"), names(refs.getRefsByPrefix("refs/heads/")));
        assertEquals(1, refs.view().stats().unsorted());
        assertEquals(Optional.empty(), refs.view().takeUnsortedPackedRefs(), "it was logged when it was met");
      }
      Lab.write(gitDir.resolve("packed-refs"), HEADER + id + " refs/heads/a\n" + id + " refs/heads/b\n");
      assertEquals(List.of("refs/heads/a", "refs/heads/b"), names(refs.getRefsByPrefix("refs/heads/")));
      assertEquals(0, refs.view().stats().unsorted());
      Lab.write(gitDir.resolve("packed-refs"), HEADER + id + " refs/heads/z\n" + id + " refs/heads/y\n");
      try (org.refdb.engine.RefListing listing = refs.view().list(List.of("refs/"), List.of())) {
        assertTrue(listing.hasUnreported());
      }
      String told = refs.view().takeUnsortedPackedRefs().orElseThrow();
      assertTrue(told.contains(gitDir.resolve("packed-refs") + " says that it is sorted, but refs/heads/y at byte "),
          told);
    }
  }

  /** Git 2.55, repacking a headerless packed-refs, promises peeled lines and writes none. */
  @Test
  void aTagWithoutAPeeledLineIsFoundByTheCommitItLeadsTo() throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.FILES);
    Lab.Objects objects = Lab.objects(gitDir, 2);
    ObjectId tagged = objects.commits().get(1);
    Lab.write(gitDir.resolve("packed-refs"), HEADER + objects.tag().name() + " refs/tags/v1\n");
    try (RefdbRepository repository = Lab.open(gitDir)) {
      Set<String> found =
          repository.getRefDatabase().getTipsWithSha1(tagged).stream().map(Ref::getName).collect(Collectors.toSet());
      assertEquals(Set.of("refs/tags/v1"), found);
    }
  }

  /**
   * Like git, refdb cuts a message so that its record fits a block. A record that does not fit would make each later
   * write of git fail.
   */
  @Test
  void aLongReflogMessageIsCutSoThatGitCanGoOnWriting() throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.REFTABLE);
    List<ObjectId> commits = Lab.objects(gitDir, 2).commits();
    String name = "refs/heads/long";
    String message = "a long message ".repeat(2000).trim();
    try (RefdbRepository repository = Lab.open(gitDir)) {
      RefUpdate update = repository.updateRef(name);
      update.setNewObjectId(commits.get(0));
      update.setRefLogIdent(Lab.WHO);
      update.setForceRefLog(true);
      update.setRefLogMessage(message, false);
      assertEquals(RefUpdate.Result.NEW, update.forceUpdate());
      for (String[] command :
          new String[][] {
            {"-c", "user.name=a", "-c", "user.email=a@b", "update-ref", name, commits.get(1).name()}, {"pack-refs"}
          }) {
        assertTrue(CGit.run(gitDir, command), String.join(" ", command));
      }
      assertEquals(commits.get(1), repository.exactRef(name).getObjectId());
      String stored = CGit.read(gitDir, "log", "-g", "--format=%gs", "-1", "--skip=1", name);
      assertTrue(message.startsWith(stored) && stored.length() > 1000 && stored.length() < 4096, stored.length() + "");
    }
  }
}

package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Tests which refs a request gets from its cache, and when it gets those on disk. */
class RequestRefCacheTest {
  private static final String MAIN = "refs/heads/main";
  private static final String NEW = "refs/heads/new";

  @TempDir Path folder;
  private Path gitDir;
  private List<ObjectId> commits;

  /** The cache of this test's thread; null outside of a request. */
  private RequestRefCache request;

  private RefdbDatabase refs;

  @AfterEach
  void close() {
    refs.close();
  }

  @ParameterizedTest
  @EnumSource
  void aRequestThatReadsSeesEachRefAsAtItsFirstLook(Lab.Format format) throws Exception {
    try (FileRepository repository = make(format)) {
      refs = RefdbDatabase.open(Lab.views(), repository, () -> request);
      request = new RequestRefCache();
      assertEquals(commits.get(0), id(MAIN));
      assertNull(refs.exactRef(NEW));
      setElsewhere(MAIN, 1);
      setElsewhere(NEW, 1);
      setElsewhere("refs/heads/unasked", 1);
      assertEquals(commits.get(0), id(MAIN));
      assertNull(refs.exactRef(NEW));
      assertEquals(commits.get(1), id("refs/heads/unasked"));

      request = new RequestRefCache();
      assertEquals(commits.get(1), id(MAIN), "another request");
      assertEquals(commits.get(1), id(NEW), "another request");
      request = null;
      setElsewhere(MAIN, 2);
      assertEquals(commits.get(2), id(MAIN), "no request");
    }
  }

  @ParameterizedTest
  @EnumSource
  void aRequestThatBeginsToWriteProvesEachAnswer(Lab.Format format) throws Exception {
    try (FileRepository repository = make(format)) {
      refs = RefdbDatabase.open(Lab.views(), repository, () -> request);
      request = new RequestRefCache();
      assertEquals(commits.get(0), id(MAIN));
      setElsewhere(MAIN, 1);
      RefUpdate update = refs.newUpdate(NEW, false);
      assertEquals(commits.get(1), id(MAIN), "before the update is made");
      setElsewhere(MAIN, 2);
      assertEquals(commits.get(2), id(MAIN));
      update.setNewObjectId(commits.get(0));
      assertEquals(RefUpdate.Result.NEW, update.update());
      assertEquals(commits.get(0), id(NEW));
    }
  }

  @ParameterizedTest
  @EnumSource
  void aRequestSeesWhatOthersOfThisProcessWriteMeanwhile(Lab.Format format) throws Exception {
    try (FileRepository repository = make(format)) {
      refs = RefdbDatabase.open(Lab.views(), repository, () -> request);
      RequestRefCache reading = new RequestRefCache();
      for (int i = 1; i < 3; i++) {
        request = reading;
        assertEquals(commits.get(i - 1), id(MAIN));
        request = new RequestRefCache();
        RefUpdate update = refs.newUpdate(MAIN, false);
        update.setNewObjectId(commits.get(i));
        assertEquals(RefUpdate.Result.FAST_FORWARD, update.update());
        request = reading;
        assertEquals(commits.get(i), id(MAIN));
      }
      setElsewhere(MAIN, 3);
      assertEquals(commits.get(2), id(MAIN));
      refs.refresh();
      assertEquals(commits.get(3), id(MAIN));
    }
  }

  @ParameterizedTest
  @EnumSource
  void aRequestThatAsksForMoreRefsThanAreKeptIsToldAsBefore(Lab.Format format) throws Exception {
    try (FileRepository repository = make(format)) {
      refs = RefdbDatabase.open(Lab.views(), repository, () -> request);
      request = new RequestRefCache();
      for (int i = 0; i < 10 * RequestRefCache.REFS_MAX; i++) {
        assertNull(refs.exactRef("refs/heads/missing-" + i));
      }
      setElsewhere("refs/heads/missing-0", 1);
      setElsewhere("refs/heads/missing-" + RequestRefCache.REFS_MAX, 1);
      assertNull(refs.exactRef("refs/heads/missing-0"), "kept");
      assertEquals(commits.get(1), id("refs/heads/missing-" + RequestRefCache.REFS_MAX), "not kept");
    }
  }

  private FileRepository make(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), format);
    commits = Lab.objects(gitDir, 4).commits();
    setElsewhere(MAIN, 0);
    return Lab.openPlain(gitDir);
  }

  private void setElsewhere(String name, int commit) throws Exception {
    assertTrue(CGit.run(gitDir, "update-ref", name, commits.get(commit).name()));
  }

  private ObjectId id(String name) throws IOException {
    Ref ref = refs.exactRef(name);
    return ref == null ? null : ref.getObjectId();
  }
}

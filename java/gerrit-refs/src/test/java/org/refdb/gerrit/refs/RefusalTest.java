package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A disk, a network or a limit fails while a project is opened, and is well again later. */
final class RefusalTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  @TempDir Path site;
  private final CountingEngine engine = new CountingEngine();
  private RefdbRepositoryManager manager;

  @BeforeEach
  void make() throws IOException {
    LocalDiskRepositoryManager disk = Sites.disk(site);
    disk.createRepository(DEMO).close();
    RepositoryCache.clear();
    engine.refuses = true;
    manager = new RefdbRepositoryManager(disk, Optional.of(engine), Settings.of(Sites.config()));
  }

  @AfterEach
  void clear() {
    RepositoryCache.clear();
  }

  private void open(boolean byRefdb) throws IOException {
    try (Repository repository = manager.openRepository(DEMO)) {
      assertEquals(byRefdb, repository instanceof RefdbRepository);
    }
  }

  /** Opens the project until the engine may try again, and returns how often it was opened before that. */
  private int openUntilDue() throws IOException {
    Refusal refusal = manager.state(DEMO).refusal();
    for (int times = 0; ; times++) {
      int before = engine.opened;
      open(false);
      if (refusal.isDue(System.nanoTime())) {
        return times;
      }
      assertEquals(before, engine.opened, "it is not tried again on every request");
    }
  }

  private void waitUntilDue() throws InterruptedException {
    Refusal refusal = manager.state(DEMO).refusal();
    while (!refusal.isDue(System.nanoTime())) {
      Thread.sleep(10);
    }
  }

  @Test
  void aProjectThatCouldNotBeOpenedIsTriedAgainByItselfAndServedMeanwhile() throws Exception {
    try (Repository repository = manager.openRepository(DEMO)) {
      assertNotNull(repository.exactRef(Constants.HEAD), "JGit serves it");
    }
    int servedMeanwhile = 0;
    // If the machine stands still during the first pauses, nothing is asked for in them.
    while (manager.state(DEMO).refusal().failures() < 4 || servedMeanwhile == 0) {
      assertEquals(manager.state(DEMO).refusal().failures(), engine.opened);
      assertEquals("not today", ProjectStat.of(manager.state(DEMO)).refusal());
      servedMeanwhile += openUntilDue();
    }
    engine.refuses = false;
    waitUntilDue();
    open(true);
    assertNull(manager.state(DEMO).refusal());
    int opened = engine.opened;
    open(true);
    assertEquals(opened, engine.opened);
    assertEquals(0, manager.state(DEMO).plainEvicted.sum(), "JGit's own, which served meanwhile, was ours to evict");
  }

  @Test
  void aFlushTriesAtOnce() throws IOException {
    open(false);
    engine.refuses = false;
    manager.forget(DEMO);
    open(true);
  }

  /** The rest after a comparison is a hundred times as long as the comparison. */
  @Test
  void aRefusedProjectDoesNotWaitForTheRestAfterAComparisonToEnd() throws Exception {
    Config config = Sites.config();
    config.setString("refdb", null, "verifyInterval", "50 ms");
    manager = new RefdbRepositoryManager(Sites.disk(site), Optional.of(engine), Settings.of(config));
    open(false);
    engine.refuses = false;
    Verifier verifier = new Verifier(manager, text -> {});
    verifier.rest(Duration.ofSeconds(5));
    assertNull(manager.state(DEMO).refusal());
  }

  /** Monitors raise an alarm where a project stays refused for minutes. */
  @Test
  void aRefusedProjectThatNobodyAsksForIsTriedAgainAndOneThatIsGoneIsRefusedNoLonger() throws Exception {
    Config config = Sites.config();
    config.setString("refdb", null, "verifyInterval", "0");
    manager = new RefdbRepositoryManager(Sites.disk(site), Optional.of(engine), Settings.of(config));
    open(false);
    Verifier verifier = new Verifier(manager, text -> {});
    engine.refuses = false;
    waitUntilDue();
    verifier.start();
    while (manager.state(DEMO).refusal() != null) {
      Thread.sleep(20); // surefire ends a test that never does
    }
    verifier.stop();

    RepositoryCache.clear();
    manager.forget(DEMO);
    engine.refuses = true;
    open(false);
    RefdbRepositoryManagerTest.remove(site.resolve("git/demo.git"));
    waitUntilDue();
    verifier.retryRefused();
    assertNull(manager.state(DEMO).refusal());
  }

  @Test
  void aProjectWithReftablesIsNotGivenToJGitWhichGerritCannotWorkWith() throws Exception {
    try (FileRepository plain = new FileRepository(site.resolve("git/demo.git").toFile())) {
      plain.convertRefStorage("reftable", false, false);
    }
    for (int i = 0; i < 2; i++) {
      Exception refused = assertThrows(RepositoryNotFoundException.class, () -> open(false));
      String why = refused.getCause().getMessage();
      assertTrue(why.contains("not today") && why.contains("tries again"), why);
      String told = ProjectStat.of(manager.state(DEMO)).text();
      assertTrue(
          told.contains(
              "demo NOT SERVED by refdb (JGit serves it unless its refs are reftables or native mode is on),"
                  + " because not today"),
          told);
    }
    engine.refuses = false;
    waitUntilDue();
    open(true);
  }

  @Test
  void pausesGrowToHalfAMinute() {
    Refusal refusal = null;
    long now = Long.MAX_VALUE - 5; // the clock's numbers may begin anywhere
    long[] expected = {100, 200, 400};
    for (int failures = 1; failures <= 100; failures++) {
      refusal = Refusal.after(refusal, "no", now);
      long pause = Duration.ofNanos(refusal.retryNanos() - now).toMillis();
      assertEquals(
          failures <= expected.length
              ? expected[failures - 1]
              : Math.min(30_000, 100L << Math.min(failures - 1, 30)),
          pause);
      assertFalse(refusal.isDue(now + Duration.ofMillis(pause - 1).toNanos()));
      assertTrue(refusal.isDue(now + Duration.ofMillis(pause).toNanos()));
    }
  }

  @Test
  void threadsThatFailTogetherHaveFailedOnce() {
    ProjectState state = new ProjectState(DEMO, false);
    for (int i = 0; i < 8; i++) {
      state.refuse(null, new IOException("no"));
    }
    assertEquals(1, state.refusal().failures());
    assertInstanceOf(Refusal.class, state.refuse(state.refusal(), new IOException("no")));
    assertEquals(2, state.refusal().failures());
  }
}

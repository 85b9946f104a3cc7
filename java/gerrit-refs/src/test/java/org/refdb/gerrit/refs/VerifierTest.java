package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.lib.StoredConfig;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A setting makes views stale: it promises that nobody else writes for an hour, and the tests break this promise. */
final class VerifierTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  @TempDir Path site;
  private final List<String> logged = new CopyOnWriteArrayList<>();

  @AfterEach
  void clear() {
    RepositoryCache.clear();
  }

  private RefdbRepositoryManager manager(String interval) throws IOException {
    Config config = Sites.config();
    config.setString("refdb", null, "verifyInterval", interval);
    return Sites.manager(site, config);
  }

  /** A repository whose view believes what it has for an hour. */
  private static Repository trusting(RefdbRepositoryManager manager) throws IOException {
    try (Repository made = manager.createRepository(DEMO)) {
      StoredConfig config = made.getConfig();
      config.setLong("refdb", null, "trustMillis", 3_600_000);
      config.save();
    }
    manager.forget(DEMO);
    return manager.openRepository(DEMO);
  }

  private static void writeElsewhere(Repository repository, String name) throws IOException {
    try (FileRepository plain = new FileRepository(repository.getDirectory())) {
      RefdbRepositoryManagerTest.create(plain, name);
    }
  }

  @Test
  void whatIsStaleIsLoggedCountedAndReadAgain() throws IOException {
    RefdbRepositoryManager manager = manager("1h");
    Verifier verifier = new Verifier(manager, logged::add);
    try (Repository repository = trusting(manager)) {
      assertNull(repository.exactRef("refs/heads/main"));
      writeElsewhere(repository, "refs/heads/main");
      assertNull(repository.exactRef("refs/heads/main"), "the setting is not heeded: this test shows nothing");
      verifier.verify(manager.state(DEMO));
      assertNotNull(repository.exactRef("refs/heads/main"));
      assertEquals(1, logged.size(), logged.toString());
      assertTrue(logged.get(0).contains("demo") && logged.get(0).contains("refs/heads/main"), logged.get(0));
      ProjectStat stat = new RefdbAdmin(manager).stat(DEMO);
      assertEquals(1, stat.staleness().found());
      assertEquals(1, stat.engine().stale());
      assertTrue(stat.staleness().staleAtMostMillis() > 0, stat.text());
      verifier.verify(manager.state(DEMO));
      assertEquals(1, logged.size(), "there is nothing stale any more");
      assertEquals(2, new RefdbAdmin(manager).stat(DEMO).engine().verifications());
    }
  }

  @Test
  void aRefThatDiffersIsCountedOnceByAnAdministratorsComparison() throws IOException {
    RefdbRepositoryManager manager = manager("1h");
    try (Repository repository = trusting(manager);
        FileRepository plain = new FileRepository(repository.getDirectory())) {
      plain.convertRefStorage("reftable", false, false);
    }
    manager.forget(DEMO);
    try (Repository repository = manager.openRepository(DEMO)) {
      assertNull(repository.exactRef("refs/heads/main"));
      writeElsewhere(repository, "refs/heads/main");
      List<String> differences = new RefdbAdmin(manager).verify(DEMO).differences();
      assertEquals(1, differences.size(), differences.toString());
    }
  }

  @Test
  void itsTurnComesByItself() throws Exception {
    RefdbRepositoryManager manager = manager("100 ms");
    Verifier verifier = new Verifier(manager, logged::add);
    try (Repository repository = trusting(manager)) {
      verifier.start(); // not before, because it would open the repository too
      assertNull(repository.exactRef("refs/heads/main"));
      writeElsewhere(repository, "refs/heads/main");
      while (repository.exactRef("refs/heads/main") == null) {
        Thread.sleep(20); // surefire ends a test that never does
      }
    } finally {
      verifier.stop();
    }
    assertEquals(1, logged.size(), logged.toString());
  }

  @Test
  void wantOfMemoryDoesNotEndTheThread() throws IOException {
    RefdbRepositoryManager manager = manager("1h");
    Verifier verifier =
        new Verifier(
            manager,
            text -> {
              throw new OutOfMemoryError("planted");
            });
    try (Repository repository = trusting(manager)) {
      assertNull(repository.exactRef("refs/heads/main"));
      writeElsewhere(repository, "refs/heads/main");
      assertDoesNotThrow(() -> verifier.verify(manager.state(DEMO)));
    }
  }

  @Test
  void onlyProjectsInUseHaveTheirTurnAndTheOneThatWaitsLongestIsFirst() throws IOException {
    RefdbRepositoryManager manager = manager("1h");
    Verifier verifier = new Verifier(manager, logged::add);
    Project.NameKey other = Project.nameKey("other");
    try (Repository one = manager.createRepository(DEMO);
        Repository two = manager.createRepository(other)) {
      one.exactRef("HEAD");
      two.exactRef("HEAD");
      assertEquals(Optional.empty(), verifier.next(System.nanoTime()), "nobody waits for an hour yet");
      long later = System.nanoTime() + Duration.ofHours(2).toNanos();
      assertEquals(Optional.of(manager.state(DEMO)), verifier.next(later));
      verifier.verify(manager.state(DEMO));
      assertEquals(Optional.of(manager.state(other)), verifier.next(later));
      verifier.verify(manager.state(other));
      assertEquals(Optional.empty(), verifier.next(later), "used by their comparisons alone");
      two.exactRef("HEAD");
      assertEquals(Optional.of(manager.state(other)), verifier.next(later));
    }
  }

  /** Previously, such a project was never compared, and counted as verified. */
  @Test
  void aProjectWhoseRefsAreOnlyListedIsInUse() throws IOException {
    RefdbRepositoryManager manager = manager("1h");
    Verifier verifier = new Verifier(manager, logged::add);
    try (Repository repository = manager.createRepository(DEMO)) {
      verifier.verify(manager.state(DEMO));
      long later = System.nanoTime() + Duration.ofHours(2).toNanos();
      assertEquals(Optional.empty(), verifier.next(later), "used by its comparison alone");
      repository.getRefDatabase().getRefsByPrefix("refs/heads/");
      assertEquals(Optional.of(manager.state(DEMO)), verifier.next(later + Duration.ofHours(2).toNanos()));
      verifier.verify(manager.state(DEMO));
      assertEquals(Optional.empty(), verifier.next(later + Duration.ofHours(4).toNanos()));
    }
  }

  /** Previously, the thread ended without a word, and nothing was compared any more. */
  @Test
  @Timeout(60)
  void figuresThatCannotBeReadDoNotEndTheThread() throws Exception {
    RefdbRepositoryManager manager = manager("100 ms");
    Thread[] thread = new Thread[1];
    AtomicInteger failures = new AtomicInteger();
    Verifier verifier =
        new Verifier(
            manager,
            logged::add,
            state -> {
              thread[0] = Thread.currentThread();
              failures.incrementAndGet();
              throw new OutOfMemoryError("planted");
            });
    try (Repository repository = manager.createRepository(DEMO)) {
      repository.exactRef("HEAD");
      verifier.start();
      while (failures.get() < 2 && (thread[0] == null || thread[0].isAlive())) {
        Thread.sleep(20);
      }
      assertTrue(thread[0].isAlive());
    } finally {
      verifier.stop();
    }
  }

  @Test
  void aProjectThatCouldNotBeComparedIsUnverifiedUntilItIs() {
    long hour = Duration.ofHours(1).toNanos();
    Staleness staleness = new Staleness(0);
    assertTrue(staleness.wasUsedAt(5, hour));
    staleness.skipped(hour); // the comparison failed
    assertTrue(staleness.wasUsedAt(5, 2 * hour), "it is compared again, although nobody has used it since");
    assertEquals(Duration.ofHours(2).toMillis(), staleness.figures(2 * hour).unverifiedMillis());
    staleness.looked(2 * hour, 2 * hour, 1);
    staleness.usedUpTo(6);
    assertEquals(Duration.ofHours(2), staleness.lastStaleAtMost());
    assertFalse(staleness.wasUsedAt(6, 3 * hour));
    assertEquals(0, staleness.figures(3 * hour).unverifiedMillis());
  }

  @Test
  void aProjectThatIsGoneEndsNothing() throws IOException {
    RefdbRepositoryManager manager = manager("1h");
    Repository repository = manager.createRepository(DEMO);
    repository.exactRef("HEAD");
    repository.close();
    RefdbRepositoryManagerTest.remove(repository.getDirectory().toPath());
    new Verifier(manager, logged::add).verify(manager.state(DEMO));
    assertEquals(0, manager.state(DEMO).staleness.figures(System.nanoTime()).found());
  }

  @Test
  void theFiguresOfAProjectSurviveAFlush() throws IOException {
    RefdbRepositoryManager manager = manager("0");
    RefdbAdmin admin = new RefdbAdmin(manager);
    try (Repository repository = manager.createRepository(DEMO)) {
      RefdbRepositoryManagerTest.create(repository, "refs/heads/main");
      long commits = admin.stat(DEMO).engine().commits();
      assertTrue(commits > 0);
      admin.flush(DEMO);
      assertEquals(commits, admin.stat(DEMO).engine().commits());
    }
    try (Repository repository = manager.openRepository(DEMO)) {
      RefdbRepositoryManagerTest.create(repository, "refs/heads/more");
      assertFalse(admin.stat(DEMO).engine().commits() < 2);
    }
  }

  @Test
  void theBusiestAndTheNamedProjectsHaveMetrics() throws IOException {
    Config config = Sites.config();
    config.setInt("refdb", null, "metricsProjects", 1);
    config.setString("refdb", null, "metricsProject", "idle");
    RefdbRepositoryManager manager = Sites.manager(site, config);
    for (String name : List.of("busy", "idle", "other")) {
      try (Repository repository = manager.createRepository(Project.nameKey(name))) {
        for (int i = 0; i < (name.equals("busy") ? 200 : 2); i++) {
          repository.exactRef("HEAD");
        }
      }
    }
    assertEquals(
        List.of("busy", "idle"),
        new RefdbAdmin(manager).notable().stream().map(ProjectStat::project).toList());
  }
}

package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.common.cache.RemovalNotification;
import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What high-availability and multi-site do: they forward an explicit removal, and invalidate the key on the peer.
 * scripts/tests/check-high-availability tests the real plugin.
 */
final class HintsTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  @TempDir Path site;
  private final List<String> forwarded = new ArrayList<>();
  private RefdbRepositoryManager manager;
  private RefdbAdmin admin;
  private Hints cache;

  @BeforeEach
  void start() throws IOException {
    manager = Sites.manager(site, Sites.config());
    admin = new RefdbAdmin(manager);
    cache = new Hints(this::removed, admin);
    cache.start();
  }

  @AfterEach
  void stop() {
    cache.stop();
    RepositoryCache.clear();
  }

  private void removed(RemovalNotification<String, Boolean> removal) {
    if (!removal.wasEvicted()) {
      forwarded.add(removal.getKey());
    }
  }

  @Test
  void anUpdateIsToldOnceAndCausesNoCheckHere() throws IOException {
    try (Repository repository = manager.createRepository(DEMO)) {
      forwarded.clear();
      RefdbRepositoryManagerTest.create(repository, "refs/heads/main");
      assertEquals(List.of("1:demo"), forwarded);
      assertEquals(0, admin.stat(DEMO).refreshed());
      RefdbRepositoryManagerTest.create(repository, "refs/heads/more");
      assertEquals(List.of("1:demo", "1:demo"), forwarded);
    }
  }

  @Test
  void aPeersNewsCausesACheckEachTime() throws IOException {
    try (Repository repository = manager.createRepository(DEMO)) {
      for (int i = 1; i <= 3; i++) {
        cache.invalidate("1:demo");
        assertEquals(i, admin.stat(DEMO).refreshed());
      }
      assertNotNull(repository.exactRef("HEAD"));
    }
  }

  @Test
  void whatANodeOnlyNoticesItDoesNotTell() throws IOException {
    try (Repository repository = manager.createRepository(DEMO);
        FileRepository peer = new FileRepository(repository.getDirectory())) {
      RefdbRepositoryManagerTest.create(repository, "refs/heads/own");
      forwarded.clear();
      AtomicInteger noticed = new AtomicInteger();
      repository.getListenerList().addRefsChangedListener(event -> noticed.incrementAndGet());
      for (int i = 1; i <= 3; i++) {
        String name = "refs/heads/by-peer-" + i;
        assertNull(repository.exactRef(name));
        RefdbRepositoryManagerTest.create(peer, name);
        cache.invalidate("1:demo"); // the peer's news, twice
        cache.invalidate("1:demo");
        assertNotNull(repository.exactRef(name));
        assertEquals(i, noticed.get(), "listeners hear of it all the same");
      }
      assertEquals(List.of(), forwarded, "told once more");
    }
  }

  /** Gerrit tells of removals on a thread of its own, where the plugins cannot see that they caused it themselves. */
  @Test
  void aPeersNewsIsNotToldAgainOnAnyThread() throws Exception {
    try (Repository repository = manager.createRepository(DEMO)) {
      RefdbRepositoryManagerTest.create(repository, "refs/heads/own");
      forwarded.clear();
      for (int i = 0; i < 3; i++) {
        cache.invalidate("1:demo");
        cache.invalidateAll(List.of("1:demo"));
        Thread.ofPlatform().start(() -> cache.invalidate("1:demo")).join();
      }
      assertEquals(List.of(), forwarded);
      assertEquals(9, admin.stat(DEMO).refreshed());
      assertEquals(0, cache.size());
    }
  }

  @Test
  void newsLostDoubledOrLateChangeNoAnswer() throws IOException {
    try (Repository repository = manager.createRepository(DEMO);
        FileRepository peer = new FileRepository(repository.getDirectory())) {
      Random random = new Random(7);
      int late = 0;
      for (int i = 0; i < 60; i++) {
        String name = "refs/heads/r" + i;
        RefdbRepositoryManagerTest.create(peer, name);
        switch (random.nextInt(4)) {
          case 0 -> late++; // lost, or late
          case 1 -> cache.invalidate("1:demo");
          case 2 -> {
            cache.invalidate("1:demo");
            cache.invalidate("1:demo");
          }
          default -> {
            while (late-- > 0) {
              cache.invalidate("1:demo");
            }
            late = 0;
          }
        }
        assertNotNull(repository.exactRef(name), name);
        assertEquals(i + 1, repository.getRefDatabase().getRefs().size());
      }
    }
  }

  @Test
  void newsOfAnotherVersionOrOfUnknownProjectsAreIgnored() throws IOException {
    manager.createRepository(DEMO).close();
    for (String key : List.of("2:demo", "demo", "", "1:no/such")) {
      cache.invalidate(key);
    }
    assertEquals(0, admin.stat(DEMO).refreshed());
  }

  @Test
  void flushingTheCacheChecksEveryProject() throws IOException {
    manager.createRepository(DEMO).close();
    cache.invalidateAll();
    assertEquals(1, admin.stat(DEMO).refreshed());
  }
}

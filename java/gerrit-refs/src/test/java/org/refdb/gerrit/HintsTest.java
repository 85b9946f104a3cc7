package org.refdb.gerrit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.google.common.cache.Cache;
import com.google.common.cache.CacheBuilder;
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

/** What high-availability and multi-site do: they forward an explicit removal, and invalidate the key on the peer. */
final class HintsTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  @TempDir Path site;
  private final List<String> forwarded = new ArrayList<>();
  private RefdbRepositoryManager manager;
  private RefdbAdmin admin;
  private Cache<String, Hints.Armed> cache;
  private Hints hints;

  @BeforeEach
  void start() throws IOException {
    manager = Sites.manager(site, Sites.config());
    admin = new RefdbAdmin(manager);
    cache = CacheBuilder.newBuilder().removalListener(this::removed).build();
    hints = new Hints(cache, manager, admin);
    hints.start();
  }

  @AfterEach
  void stop() {
    hints.stop();
    RepositoryCache.clear();
  }

  private void removed(RemovalNotification<String, Hints.Armed> removal) {
    hints.onRemoval("gerrit", Hints.CACHE, removal);
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
        RefdbRepositoryManagerTest.create(peer, "refs/heads/by-peer-" + i);
        cache.invalidate("1:demo"); // the peer's news, once or twice
        cache.invalidate("1:demo");
        forwarded.clear(); // the plugins do not forward what they were told
        assertNotNull(repository.exactRef("refs/heads/by-peer-" + i));
        assertEquals(i, noticed.get(), "listeners hear of it all the same");
      }
      assertEquals(List.of(), forwarded, "told once more");
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
      cache.put(key, new Hints.Armed());
      cache.invalidate(key);
      cache.invalidate("no entry: " + key);
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

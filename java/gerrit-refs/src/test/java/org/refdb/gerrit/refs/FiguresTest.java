package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.lib.RepositoryCacheConfig;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.RefHoldings;

/** What the figures say, and what reading them does: nothing. */
final class FiguresTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  @TempDir Path site;
  private RefdbRepositoryManager manager;
  private RefdbAdmin admin;

  @BeforeEach
  void start() throws IOException {
    manager = Sites.manager(site, Sites.config());
    admin = new RefdbAdmin(manager);
  }

  @AfterEach
  void clear() {
    RepositoryCache.clear();
    new RepositoryCacheConfig().install();
  }

  private long uses() {
    return admin.stats().stream().mapToLong(ProjectStat::uses).sum();
  }

  private long held() {
    RefHoldings holdings = admin.holdings().orElseThrow();
    return holdings.views() + holdings.openViews() + holdings.openFiles();
  }

  @Test
  void readingFiguresAllTheTimeKeepsNoRepositoryOpenAndLosesNone() throws Exception {
    RepositoryCacheConfig config = new RepositoryCacheConfig();
    config.setExpireAfter(300);
    config.setCleanupDelay(50);
    config.install();
    for (int round = 1; round <= 2; round++) {
      try (Repository repository = round == 1 ? manager.createRepository(DEMO) : manager.openRepository(DEMO)) {
        repository.exactRef("HEAD");
        // There is one view while the repository is open; JGit closes it soon after.
        RefHoldings holdings = admin.holdings().orElseThrow();
        assertEquals(1, holdings.views());
        assertTrue(holdings.openFiles() > 0 && holdings.openFiles() <= holdings.openFilesMax(), holdings.toString());
        assertTrue(holdings.bytes() > 0 && holdings.bytes() <= holdings.bytesMax(), holdings.toString());
      }
      long uses = uses();
      assertTrue(uses >= round, "each round asks for refs: " + uses);
      long deadline = System.nanoTime() + Duration.ofMinutes(2).toNanos();
      while (!RepositoryCache.getRegisteredKeys().isEmpty()) {
        assertTrue(System.nanoTime() < deadline, "JGit never lets go of a project whose figures are read");
        admin.notable();
        admin.stat(DEMO);
        admin.refresh(DEMO);
        Thread.sleep(20);
      }
      assertEquals(uses, uses(), "what was counted before stays");
      // JGit forgets a repository before it closes it.
      while (held() > 0) {
        assertTrue(System.nanoTime() < deadline, "still open: " + admin.holdings().orElseThrow());
        Thread.sleep(20);
      }
    }
  }

  @Test
  void howManyFilesMayBeOpenIsASettingWithABound() throws IOException {
    Config config = Sites.config();
    config.setInt("refdb", null, "openFiles", 40);
    RefHoldings holdings = new RefdbAdmin(Sites.manager(site, config)).holdings().orElseThrow();
    assertEquals(40, holdings.openFilesMax());
    config.setInt("refdb", null, "openFiles", Integer.MAX_VALUE);
    long most = new RefdbAdmin(Sites.manager(site, config)).holdings().orElseThrow().openFilesMax();
    assertTrue(most > 40 && most < Integer.MAX_VALUE, "half of what the process may have: " + most);
    assertFalse(admin.holdings().orElseThrow().openFilesMax() > most);
    for (int bad : new int[] {-1, 1, 15}) {
      config.setInt("refdb", null, "openFiles", bad);
      String message = assertThrows(IllegalArgumentException.class, () -> Settings.of(config)).getMessage();
      assertTrue(message.contains("refdb.openFiles is " + bad) && message.contains("at least 16"), message);
    }
  }
}

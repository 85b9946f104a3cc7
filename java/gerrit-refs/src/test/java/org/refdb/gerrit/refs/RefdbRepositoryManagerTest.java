package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.cache.PerThreadCache;
import com.google.gerrit.server.git.GitRepositoryManager.Status;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;
import org.eclipse.jgit.errors.RepositoryNotFoundException;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.util.FS;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.jgit.RefdbDatabase;

final class RefdbRepositoryManagerTest {
  private static final Project.NameKey DEMO = Project.nameKey("some/demo");

  @TempDir Path site;
  private RefdbRepositoryManager manager;

  @BeforeEach
  void open() throws IOException {
    manager = Sites.manager(site, Sites.config());
  }

  @AfterEach
  void clear() {
    RepositoryCache.clear();
  }

  @Test
  void createOpenAndStatusAllYieldOurRepository() throws IOException {
    try (Repository made = manager.createRepository(DEMO);
        Repository opened = manager.openRepository(DEMO)) {
      assertInstanceOf(RefdbRepository.class, made);
      assertSame(made, opened, "one object for the path");
      assertInstanceOf(RefdbDatabase.class, made.getRefDatabase());
      assertInstanceOf(FileRepository.class, made);
      assertEquals(Status.ACTIVE, manager.getRepositoryStatus(DEMO));
    }
    assertEquals(Status.NON_EXISTENT, manager.getRepositoryStatus(Project.nameKey("no")));
    assertEquals(Status.NON_EXISTENT, manager.getRepositoryStatus(Project.nameKey("../no")));
    assertEquals(java.util.Set.of(DEMO), manager.list());
    assertTrue(manager.canPerformGC());
    assertThrows(RepositoryNotFoundException.class, () -> manager.openRepository(Project.nameKey("no")));
    assertThrows(RepositoryNotFoundException.class, () -> manager.openRepository(Project.nameKey("../no")));
  }

  @Test
  void aPlainRepositoryInJGitsCacheIsEvictedAndCounted() throws IOException {
    manager.createRepository(DEMO).close();
    RepositoryCache.clear();
    try (Repository plain = RepositoryCache.open(RepositoryCache.FileKey.exact(gitDir(), FS.DETECTED))) {
      assertFalse(plain instanceof RefdbRepository);
      try (Repository ours = manager.openRepository(DEMO)) {
        assertInstanceOf(RefdbRepository.class, ours);
      }
      assertEquals(1, manager.state(DEMO).plainEvicted.sum());
      assertNotNull(plain.exactRef(Constants.HEAD), "the plain one stays usable");
    }
  }

  /** Previously, {@code daemon --init} updated the refs of All-Projects with the engine of {@code init}. */
  @Test
  void whatAnEarlierManagerOfTheProcessLeavesInJGitsCacheIsEvicted() throws IOException {
    try (Repository earlier = manager.createRepository(DEMO)) {
      RefdbRepositoryManager next = Sites.manager(site, Sites.config());
      try (Repository ours = next.openRepository(DEMO)) {
        assertNotSame(earlier, ours);
        assertSame(next.state(DEMO), ((RefdbRepository) ours).state());
        assertEquals(0, next.state(DEMO).plainEvicted.sum());
      }
      assertNotNull(earlier.exactRef(Constants.HEAD), "the other one stays usable");
    }
  }

  @Test
  void aDeletedProjectLeavesNothingToItsSuccessor() throws IOException {
    Repository old = manager.createRepository(DEMO);
    assertEquals(RefUpdate.Result.NEW, create(old, "refs/heads/old"));
    old.close();
    remove(gitDir().toPath());
    manager.repositoryDeleted(DEMO);
    assertThrows(RepositoryNotFoundException.class, () -> manager.openRepository(DEMO));
    try (Repository made = manager.createRepository(DEMO)) {
      assertNotSame(old, made);
      assertNull(made.exactRef("refs/heads/old"));
      assertEquals(RefUpdate.Result.NEW, create(made, "refs/heads/new"));
    }
  }

  private static Object note(List<Object> list, Object one) {
    list.add(one);
    return null;
  }

  /** An object that does nothing, except that this method of it returns something. */
  @SuppressWarnings("unchecked")
  private static <T> T stub(Class<T> type, String method, Function<Object[], Object> answer) {
    return (T)
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (self, called, arguments) -> called.getName().equals(method) ? answer.apply(arguments) : null);
  }

  /** Previously, the late message about an old project removed the refs of the new one from the global database. */
  @Test
  void aProjectThatIsThereIsNotRemovedFromTheGlobalRefDatabase() throws IOException {
    List<Object> removed = new ArrayList<>();
    GlobalDecision global = stub(GlobalDecision.class, "removed", names -> note(removed, names[0]));
    RefEngine engine = stub(RefEngine.class, "global", none -> Optional.of(global));
    LocalDiskRepositoryManager disk = Sites.disk(site);
    RefdbRepositoryManager nativeMode = new RefdbRepositoryManager(disk, Optional.of(engine), Settings.of(Sites.config()));
    disk.createRepository(DEMO).close();
    nativeMode.repositoryDeleted(DEMO);
    assertEquals(List.of(), removed);
    remove(gitDir().toPath());
    nativeMode.repositoryDeleted(DEMO);
    assertEquals(List.of(ProjectName.of(DEMO)), removed);
  }

  @Test
  void aProjectDeletedBehindOurBackCanBeMadeAgain() throws IOException {
    Repository old = manager.createRepository(DEMO);
    assertEquals(RefUpdate.Result.NEW, create(old, "refs/heads/old"));
    old.close();
    remove(gitDir().toPath()); // and nobody says so
    assertThrows(RepositoryNotFoundException.class, () -> manager.openRepository(DEMO));
    assertEquals(Status.NON_EXISTENT, manager.getRepositoryStatus(DEMO));
    try (Repository made = manager.createRepository(DEMO)) {
      assertInstanceOf(RefdbRepository.class, made);
      assertNull(made.exactRef("refs/heads/old"));
      assertEquals("refs/heads/master", made.getFullBranch());
    }
  }

  @Test
  void aRequestThatOnlyReadsSeesRefsAndProjectsAsAtItsFirstLookIfTheSiteAllowsIt() throws Throwable {
    manager.createRepository(DEMO).close();
    Path folder = gitDir().toPath();
    Path away = folder.resolveSibling("away");
    for (boolean perRequest : new boolean[] {true, false}) {
      Config config = Sites.config();
      config.setBoolean("core", null, "usePerRequestRefCache", perRequest);
      RefdbRepositoryManager other = Sites.manager(site, config);
      String name = "refs/heads/elsewhere-" + perRequest;
      inRequest(
          () -> {
            try (Repository repository = other.openRepository(DEMO);
                Repository plain = new FileRepository(gitDir())) {
              assertNull(repository.exactRef(name));
              create(plain, name);
              assertEquals(perRequest, repository.exactRef(name) == null);
            }
          });
      try (Repository repository = other.openRepository(DEMO)) {
        assertNotNull(repository.exactRef(name), "no request");
      }
      inRequest(
          () -> {
            other.openRepository(DEMO).close();
            Files.move(folder, away);
            if (perRequest) {
              try (Repository repository = other.openRepository(DEMO)) {
                assertThrows(IOException.class, () -> repository.exactRef("refs/heads/any"), "the view notices it");
              }
            } else {
              assertThrows(RepositoryNotFoundException.class, () -> other.openRepository(DEMO));
            }
          });
      assertThrows(RepositoryNotFoundException.class, () -> other.openRepository(DEMO), "no request");
      Files.move(away, folder);
    }
  }

  static void inRequest(Executable work) throws Throwable {
    PerThreadCache request = PerThreadCache.create();
    try {
      work.execute();
    } finally {
      request.close();
    }
  }

  @Test
  void closingOpensNothingAndAClosedRepositoryCanStillBeAsked() throws IOException {
    Repository repository = manager.createRepository(DEMO);
    create(repository, "refs/heads/main");
    CountingEngine counting = new CountingEngine();
    RefdbRepository direct = new RefdbRepository(gitDir(), new ProjectState(DEMO, false), counting);
    assertEquals(1, counting.opened);
    direct.close();
    assertEquals(1, counting.opened, "closing opened the refs again");
    assertEquals(1, counting.closed);
    assertNotNull(direct.exactRef("refs/heads/main"), "as with JGit's ref directory");
    assertEquals(2, counting.opened);
    repository.close();
  }

  @Test
  void aBranchIsRenamedThroughTheRepository() throws IOException {
    try (Repository repository = manager.createRepository(DEMO)) {
      create(repository, "refs/heads/master");
      ObjectId id = repository.exactRef("refs/heads/master").getObjectId();
      assertEquals(
          RefUpdate.Result.RENAMED, repository.renameRef("refs/heads/master", "refs/heads/now").rename());
      assertNull(repository.exactRef("refs/heads/master"));
      assertEquals(id, repository.exactRef("refs/heads/now").getObjectId());
      assertEquals("refs/heads/now", repository.getFullBranch(), "HEAD follows");
    }
  }

  @Test
  void theRefStorageIsConvertedBothWays() throws IOException {
    Repository before = manager.createRepository(DEMO);
    create(before, "refs/heads/main");
    for (String format : new String[] {"reftable", "refdir"}) {
      try (Repository repository = manager.openRepository(DEMO)) {
        ((FileRepository) repository).convertRefStorage(format, true, false);
        assertNotNull(repository.exactRef("refs/heads/main"), "by who converted it, to " + format);
        assertEquals("refs/heads/master", repository.getFullBranch(), "an unborn HEAD is kept, which JGit loses");
        assertNotNull(before.exactRef("refs/heads/main"), "by who had it open, to " + format);
      }
      try (Repository repository = manager.openRepository(DEMO)) {
        assertInstanceOf(RefdbRepository.class, repository);
        assertNotNull(repository.exactRef("refs/heads/main"), "by the next one, to " + format);
        assertEquals(RefUpdate.Result.NEW, create(repository, "refs/heads/" + format));
      }
      assertEquals(format.equals("reftable"), new File(gitDir(), "reftable/tables.list").exists());
    }
    before.close();
  }

  @Test
  void withoutTheEngineEverythingIsGerritsOwn() throws IOException {
    RefdbRepositoryManager without =
        new RefdbRepositoryManager(Sites.disk(site), Optional.empty(), Settings.of(Sites.config()));
    assertFalse(without.isEngineLoaded());
    try (Repository made = without.createRepository(DEMO);
        Repository opened = without.openRepository(DEMO)) {
      assertFalse(made instanceof RefdbRepository);
      assertSame(made, opened);
    }
    assertEquals(Status.ACTIVE, without.getRepositoryStatus(DEMO));
    without.repositoryDeleted(DEMO);
  }

  @Test
  void projectsLieWhereTheirBasePathSays() throws IOException {
    Config config = Sites.config();
    Path elsewhere = site.resolve("elsewhere");
    Files.createDirectories(elsewhere);
    config.setString("repository", "far/*", "basePath", elsewhere.toString());
    RefdbRepositoryManager several = Sites.manager(site, config);
    Project.NameKey far = Project.nameKey("far/away");
    try (Repository repository = several.createRepository(far)) {
      assertInstanceOf(RefdbRepository.class, repository);
      assertTrue(repository.getDirectory().toPath().startsWith(elsewhere.toRealPath()));
      assertEquals(RefUpdate.Result.NEW, create(repository, "refs/heads/main"));
    }
    several.createRepository(DEMO).close();
    assertEquals(java.util.Set.of(far, DEMO), several.list());
  }

  @Test
  void fault24PerRequestCachingChangesNothing() throws IOException {
    Config config = Sites.config();
    for (boolean on : new boolean[] {true, false}) {
      config.setBoolean("core", null, "usePerRequestRefCache", on);
      RefdbRepositoryManager other = Sites.manager(site, config);
      Project.NameKey name = Project.nameKey("cached-" + on);
      try (Repository repository = other.createRepository(name)) {
        assertInstanceOf(RefdbDatabase.class, repository.getRefDatabase());
        ((FileRepository) repository).convertRefStorage("reftable", false, false);
      }
      try (Repository repository = other.openRepository(name)) {
        assertEquals(RefUpdate.Result.NEW, create(repository, "refs/heads/main"));
      }
    }
  }

  private File gitDir() {
    return site.resolve("git/some/demo.git").toFile();
  }

  static RefUpdate.Result create(Repository repository, String name) throws IOException {
    RefUpdate update = repository.updateRef(name);
    update.setExpectedOldObjectId(ObjectId.zeroId());
    update.setNewObjectId(commit(repository));
    return update.update();
  }

  static ObjectId commit(Repository repository) throws IOException {
    try (ObjectInserter inserter = repository.newObjectInserter()) {
      org.eclipse.jgit.lib.CommitBuilder commit = new org.eclipse.jgit.lib.CommitBuilder();
      commit.setTreeId(inserter.insert(new org.eclipse.jgit.lib.TreeFormatter()));
      commit.setAuthor(new org.eclipse.jgit.lib.PersonIdent("A", "a@example.com"));
      commit.setCommitter(commit.getAuthor());
      commit.setMessage("commit " + System.nanoTime());
      ObjectId id = inserter.insert(commit);
      inserter.flush();
      return id;
    }
  }

  static void remove(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
        Files.delete(file);
      }
    }
  }
}

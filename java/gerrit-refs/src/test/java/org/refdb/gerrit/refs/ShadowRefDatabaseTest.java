package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.jgit.RefdbDatabase;

final class ShadowRefDatabaseTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  @TempDir Path site;

  @AfterEach
  void clear() {
    RepositoryCache.clear();
  }

  @Test
  void itIsTurnedOnAndOffWhileTheRepositoryIsOpen() throws IOException {
    RefdbRepositoryManager manager = Sites.manager(site, Sites.config());
    RefdbAdmin admin = new RefdbAdmin(manager);
    try (Repository repository = manager.createRepository(DEMO)) {
      RefdbRepositoryManagerTest.create(repository, "refs/heads/before");
      admin.shadow(DEMO, true);
      assertInstanceOf(ShadowRefDatabase.class, repository.getRefDatabase());
      assertEquals(RefUpdate.Result.NEW, RefdbRepositoryManagerTest.create(repository, "refs/heads/during"));
      ask(repository.getRefDatabase());
      admin.shadow(DEMO, false);
      assertInstanceOf(RefdbDatabase.class, repository.getRefDatabase());
      assertEquals(3, repository.getRefDatabase().getRefs().size() + 1, "HEAD is not born");
    }
    ProjectStat stat = admin.stat(DEMO);
    assertTrue(stat.compared() >= 10, stat.text());
    assertEquals(0, stat.different(), stat.text());
  }

  @Test
  void itLastsOverARestartWhereGerritsConfigurationSaysSo() throws IOException {
    Config config = Sites.config();
    config.setStringList("refdb", null, "shadow", List.of("demo", "team/*"));
    for (int start = 0; start < 2; start++) {
      RefdbRepositoryManager manager = Sites.manager(site.resolve("start-" + start), config);
      RefdbAdmin admin = new RefdbAdmin(manager);
      for (String shadowed : List.of("demo", "team/a/b")) {
        try (Repository repository = manager.createRepository(Project.nameKey(shadowed))) {
          assertInstanceOf(ShadowRefDatabase.class, repository.getRefDatabase(), shadowed);
          admin.shadow(Project.nameKey(shadowed), false);
          assertInstanceOf(RefdbDatabase.class, repository.getRefDatabase(), shadowed);
        }
      }
      for (String other : List.of("demo2", "team", "a/demo")) {
        try (Repository repository = manager.createRepository(Project.nameKey(other))) {
          assertInstanceOf(RefdbDatabase.class, repository.getRefDatabase(), other);
        }
      }
    }
  }

  @Test
  void whatARequestMayBelieveIsNoDifference() throws Throwable {
    RefdbRepositoryManager manager = Sites.manager(site, Sites.config());
    RefdbAdmin admin = new RefdbAdmin(manager);
    try (Repository repository = manager.createRepository(DEMO);
        Repository plain = new FileRepository(repository.getDirectory())) {
      admin.shadow(DEMO, true);
      RefdbRepositoryManagerTest.inRequest(
          () -> {
            assertNull(repository.exactRef("refs/heads/main"));
            RefdbRepositoryManagerTest.create(plain, "refs/heads/main");
            assertEquals("refs/heads/main", repository.exactRef("refs/heads/main").getName());
          });
    }
    assertEquals(0, admin.stat(DEMO).different(), admin.stat(DEMO).text());
  }

  private static void ask(RefDatabase refs) throws IOException {
    ObjectId id = refs.exactRef("refs/heads/before").getObjectId();
    assertEquals(2, refs.exactRef("refs/heads/before", "refs/heads/during", "refs/heads/no").size());
    assertNull(refs.firstExactRef("refs/heads/no"));
    assertEquals(2, refs.getRefs().size());
    assertEquals(2, refs.getRefsByPrefix("refs/heads/").size());
    assertEquals(1, refs.getRefsByPrefix("refs/heads/b", "refs/tags/").size());
    assertEquals(1, refs.getRefsByPrefixWithExclusions("refs/", Set.of("refs/heads/b")).size());
    assertEquals(1, refs.getTipsWithSha1(id).size());
    assertTrue(refs.isNameConflicting("refs/heads/before/more"));
    assertEquals(List.of("refs/heads/before"), List.copyOf(refs.getConflictingNames("refs/heads/before/more")));
    assertTrue(refs.getAdditionalRefs().isEmpty());
    assertTrue(refs.hasRefs());
  }

  @Test
  void aWrongAnswerIsCountedAndJGitsIsGiven() throws IOException {
    try (FileRepository vanilla = new FileRepository(site.resolve("x.git").toFile())) {
      vanilla.create(true);
      RefdbRepositoryManagerTest.create(vanilla, "refs/heads/main");
      ProjectState state = new ProjectState(DEMO, false);
      RefDatabase blind =
          new ForwardingRefDatabase(vanilla.getRefDatabase()) {
            @Override
            public Ref exactRef(String name) {
              return null;
            }
          };
      ShadowRefDatabase shadow = new ShadowRefDatabase(vanilla, blind, state);
      assertEquals("refs/heads/main", shadow.exactRef("refs/heads/main").getName());
      assertNull(shadow.exactRef("refs/heads/no"));
      assertEquals(2, state.compared.sum());
      assertEquals(1, state.different.sum());
    }
  }

  /** Every garbage collection asks for the additional refs. */
  @Test
  void aBrokenRefIsNoDifferenceInTheAdditionalRefs() throws IOException {
    RefdbRepositoryManager manager = Sites.manager(site, Sites.config());
    RefdbAdmin admin = new RefdbAdmin(manager);
    try (Repository repository = manager.createRepository(DEMO)) {
      RefdbRepositoryManagerTest.create(repository, "refs/heads/main");
      Files.writeString(repository.getDirectory().toPath().resolve("refs/heads/broken"), "rubbish\n");
      admin.shadow(DEMO, true);
      assertEquals(List.of(), repository.getRefDatabase().getAdditionalRefs());
    }
    assertEquals(0, admin.stat(DEMO).different(), admin.stat(DEMO).text());
  }

  @Test
  void aChangeByAnotherBetweenTheTwoQuestionsIsNoDifference() throws IOException {
    try (FileRepository vanilla = new FileRepository(site.resolve("x.git").toFile())) {
      vanilla.create(true);
      ProjectState state = new ProjectState(DEMO, false);
      RefDatabase quicker =
          new ForwardingRefDatabase(vanilla.getRefDatabase()) {
            @Override
            public Ref exactRef(String name) throws IOException {
              if (super.exactRef(name) == null) {
                RefdbRepositoryManagerTest.create(vanilla, name); // just after JGit was asked
              }
              return super.exactRef(name);
            }
          };
      ShadowRefDatabase shadow = new ShadowRefDatabase(vanilla, quicker, state);
      assertEquals("refs/heads/main", shadow.exactRef("refs/heads/main").getName());
      assertEquals(0, state.different.sum());
    }
  }

  @Test
  void noQuestionThatJGitKnowsIsLeftToADefault() {
    List<String> inherited = new ArrayList<>();
    for (Method method : RefDatabase.class.getMethods()) {
      if (method.getDeclaringClass() != RefDatabase.class
          || Modifier.isStatic(method.getModifiers())
          || Modifier.isFinal(method.getModifiers())) {
        continue;
      }
      try {
        ShadowRefDatabase.class.getDeclaredMethod(method.getName(), method.getParameterTypes());
      } catch (NoSuchMethodException e) {
        inherited.add(method.toString());
      }
    }
    assertEquals(List.of(), inherited);
  }
}

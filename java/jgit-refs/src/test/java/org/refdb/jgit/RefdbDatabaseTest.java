package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.refdb.engine.ClosedHandleException;

class RefdbDatabaseTest {
  @TempDir Path folder;

  @ParameterizedTest
  @EnumSource
  void whatIsWrittenIsReadHereAndByPlainJgit(Lab.Format format) throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), format);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertNull(repository.exactRef("refs/heads/master"));
      assertEquals(RefUpdate.Result.NEW, set(repository, "refs/heads/master", commit));
      assertEquals(commit, repository.exactRef("refs/heads/master").getObjectId());
      assertEquals(commit, repository.exactRef("HEAD").getObjectId());
      assertEquals(
          List.of("HEAD", "refs/heads/master"),
          repository.getRefDatabase().getRefs().stream().map(Ref::getName).toList());
    }
    try (Repository plain = Lab.openPlain(gitDir)) {
      assertEquals(commit, plain.exactRef("refs/heads/master").getObjectId());
    }
  }

  @ParameterizedTest
  @EnumSource
  void refsAndListsOutliveTheRepository(Lab.Format format) throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), format);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    RefDatabase refs;
    Ref head;
    List<Ref> list;
    try (RefdbRepository repository = Lab.open(gitDir)) {
      set(repository, "refs/heads/master", commit);
      refs = repository.getRefDatabase();
      head = refs.exactRef("HEAD");
      list = refs.getRefs();
    }
    assertEquals(commit, head.getObjectId());
    assertEquals(commit, list.get(1).getObjectId());
    assertThrows(ClosedHandleException.class, () -> refs.exactRef("HEAD"));
    assertThrows(ClosedHandleException.class, refs::getRefs);
  }

  /** The names and answers are longer than the buffer through which they pass. */
  @ParameterizedTest
  @EnumSource
  void aRefIsFoundHoweverLongItsNameAndWhatLeadsToIt(Lab.Format format) throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), format);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    String longName = "refs/heads/" + ("x".repeat(200) + "/").repeat(7) + "end";
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertEquals(RefUpdate.Result.NEW, set(repository, longName, commit));
      assertEquals(commit, repository.exactRef(longName).getObjectId());
      assertEquals(RefUpdate.Result.NEW, repository.updateRef("refs/heads/link").link(longName));
      assertEquals(longName, repository.exactRef("refs/heads/link").getTarget().getName());
      assertEquals(commit, repository.exactRef("refs/heads/link").getObjectId());
    }
  }

  /**
   * A method that JGit adds must be overridden on purpose, because inheriting it may mean a scan, or nothing at all
   * (packRefs).
   */
  @Test
  void everyMethodOfJgitsClassIsAnsweredOnPurpose() {
    for (Method method : RefDatabase.class.getDeclaredMethods()) {
      int modifiers = method.getModifiers();
      if (Modifier.isStatic(modifiers) || Modifier.isPrivate(modifiers) || Modifier.isFinal(modifiers)
          || method.isSynthetic()) {
        continue;
      }
      boolean isAnswered =
          Arrays.stream(RefdbDatabase.class.getDeclaredMethods())
              .anyMatch(
                  own ->
                      own.getName().equals(method.getName())
                          && Arrays.equals(own.getParameterTypes(), method.getParameterTypes()));
      assertTrue(isAnswered, "RefdbDatabase inherits " + method);
    }
  }

  @ParameterizedTest
  @EnumSource
  void anUpdateToTheZeroIdRemovedHead(Lab.Format format) throws Exception {
    Path gitDir = Lab.create(folder.resolve("r.git"), format);
    ObjectId commit = Lab.objects(gitDir, 1).commits().get(0);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      set(repository, "refs/heads/master", commit);
      for (boolean isDetached : new boolean[] {false, true}) {
        if (isDetached) {
          CGit.read(gitDir, "update-ref", "--no-deref", "HEAD", commit.name());
        }
        for (boolean detach : new boolean[] {false, true}) {
          RefUpdate update = repository.updateRef("HEAD", detach);
          update.setNewObjectId(ObjectId.zeroId());
          assertEquals(RefUpdate.Result.REJECTED_OTHER_REASON, update.forceUpdate());
          assertEquals(commit, repository.exactRef("HEAD").getObjectId());
          assertEquals(commit.name(), CGit.read(gitDir, "rev-parse", "HEAD"));
        }
      }
    }
  }

  static RefUpdate.Result set(Repository repository, String name, ObjectId id) throws Exception {
    RefUpdate update = repository.updateRef(name);
    update.setNewObjectId(id);
    update.setForceUpdate(true);
    return update.update();
  }
}

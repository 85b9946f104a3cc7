package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.StoredConfig;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** RefsChangedEvent: the first query that finds another's change fires one, as with JGit, and the next fires none. */
class EventsTest {
  private static final String MAIN = "refs/heads/main";
  private static final String NEW = "refs/heads/new/er";

  /**
   * Queries that JGit answers by listing all refs. Here the answer, and so the news, is about as few refs as it takes.
   */
  private static final Set<String> LOOKS_AT_FEW = Set.of("hasRefs", "conflicting");

  @TempDir Path folder;
  private Path gitDir;
  private Lab.Objects objects;

  private interface Act {
    void on(Repository repository) throws Exception;
  }

  private static Map<String, Act> queries(String changed) {
    Map<String, Act> queries = new LinkedHashMap<>();
    queries.put("scanForRepoChanges", Repository::scanForRepoChanges);
    queries.put("getRefs", repository -> repository.getRefDatabase().getRefs());
    queries.put("getRefsByPrefix", repository -> repository.getRefDatabase().getRefsByPrefix("refs/"));
    queries.put("getRefsByPrefix below", repository -> repository.getRefDatabase().getRefsByPrefix("refs/heads/"));
    queries.put("exclusions", r -> r.getRefDatabase().getRefsByPrefixWithExclusions("refs/", Set.of("refs/tags/")));
    queries.put("hasRefs", repository -> repository.getRefDatabase().hasRefs());
    queries.put("conflicting", repository -> repository.getRefDatabase().getConflictingNames("refs/heads/main/x"));
    queries.put("exactRef", repository -> repository.exactRef(changed));
    queries.put("exactRef of many", repository -> repository.getRefDatabase().exactRef("refs/heads/none", changed));
    queries.put("firstExactRef", repository -> repository.getRefDatabase().firstExactRef("refs/heads/none", changed));
    queries.put("tips", repository -> repository.getRefDatabase().getTipsWithSha1(ObjectId.zeroId()));
    return queries;
  }

  /** The changes that another process makes, each with the ref that it concerns. */
  private Map<String, String[]> changes() {
    String one = objects.commits().get(1).name();
    Map<String, String[]> changes = new LinkedHashMap<>();
    changes.put("created", new String[] {NEW, "update-ref", NEW, one});
    changes.put("updated", new String[] {MAIN, "update-ref", MAIN, one});
    changes.put("deleted", new String[] {"refs/heads/gone", "update-ref", "-d", "refs/heads/gone"});
    changes.put("symbolic", new String[] {"refs/heads/link", "symbolic-ref", "refs/heads/link", "refs/heads/gone"});
    changes.put("HEAD", new String[] {"HEAD", "symbolic-ref", "HEAD", "refs/heads/gone"});
    changes.put("packed", new String[] {MAIN, "pack-refs", "--all"});
    return changes;
  }

  private void prepare(Path at, Lab.Format format) throws Exception {
    gitDir = Lab.create(at, format);
    objects = Lab.objects(gitDir, 2);
    String zero = objects.commits().get(0).name();
    for (String name : new String[] {MAIN, "refs/heads/gone", "refs/heads/link", "refs/tags/t"}) {
      CGit.read(gitDir, "update-ref", name, zero);
    }
    // HEAD is the only symbolic ref, because following another one would notice a change before a list does.
    CGit.read(gitDir, "symbolic-ref", "HEAD", MAIN);
  }

  static void copy(Path from, Path to) throws Exception {
    try (Stream<Path> files = Files.walk(from)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        Files.copy(file, to.resolve(from.relativize(file)));
      }
    }
  }

  private static AtomicInteger listen(Repository repository) {
    AtomicInteger events = new AtomicInteger();
    repository.getListenerList().addRefsChangedListener(event -> events.incrementAndGet());
    return events;
  }

  @ParameterizedTest
  @EnumSource
  void aListThatFoundAnothersChangeFiredNoEvent(Lab.Format format) throws Exception {
    StringBuilder wrong = new StringBuilder();
    int number = 0;
    Path template = folder.resolve("template.git");
    prepare(template, format);
    for (String change : changes().keySet()) {
      for (String query : queries("").keySet()) {
        gitDir = folder.resolve("r" + number++ + ".git");
        copy(template, gitDir);
        String[] words = changes().get(change);
        int[] ours;
        int[] theirs;
        try (Repository repository = Lab.open(gitDir);
            Repository plain = Lab.openPlain(gitDir)) {
          Act act = queries(words[0]).get(query);
          AtomicInteger ourEvents = warm(repository, act);
          AtomicInteger theirEvents = warm(plain, act);
          CGit.read(gitDir, Arrays.copyOfRange(words, 1, words.length));
          ours = eventsOf(repository, act, words[0], ourEvents);
          theirs = eventsOf(plain, act, words[0], theirEvents);
        }
        // Git compacts tables by itself, so that packing them again changes nothing.
        int expected = format == Lab.Format.REFTABLE && change.equals("packed") ? 0 : 1;
        boolean isLate =
            ours[0] < Math.min(theirs[0], expected) && (format == Lab.Format.REFTABLE || !LOOKS_AT_FEW.contains(query));
        if (ours[0] + ours[1] != expected || isLate) {
          wrong.append(format + ", " + change + ", " + query + ": " + Arrays.toString(ours) + Arrays.toString(theirs)
              + "\n");
        }
      }
    }
    assertEquals("", wrong.toString());
  }

  private static AtomicInteger warm(Repository repository, Act act) throws Exception {
    repository.getRefDatabase().getRefs();
    act.on(repository);
    return listen(repository);
  }

  /** Returns how many events the first query fires, and how many all later queries fire. */
  private static int[] eventsOf(Repository repository, Act act, String changed, AtomicInteger events) throws Exception {
    act.on(repository);
    int first = events.get();
    act.on(repository);
    repository.getRefDatabase().getRefs();
    repository.exactRef(changed);
    return new int[] {first, events.get() - first};
  }

  @ParameterizedTest
  @EnumSource
  void ownChangesAreToldOnce(Lab.Format format) throws Exception {
    prepare(folder.resolve("r.git"), format);
    try (Repository repository = Lab.open(gitDir)) {
      repository.getRefDatabase().getRefs();
      AtomicInteger events = listen(repository);
      ObjectId id = objects.commits().get(1);
      assertEquals(RefUpdate.Result.NEW, RefdbDatabaseTest.set(repository, NEW, id));
      repository.getRefDatabase().getRefs();
      repository.exactRef(NEW);
      assertEquals(1, events.get());
      RefUpdate delete = repository.updateRef(NEW);
      delete.setForceUpdate(true);
      delete.delete();
      repository.getRefDatabase().getRefs();
      assertEquals(2, events.get());
    }
  }

  /** Saving the configuration, here or by another process, is no change of refs. */
  @ParameterizedTest
  @EnumSource
  void aSavedConfigurationWasToldAsAChangeOfRefs(Lab.Format format) throws Exception {
    Map<String, Act> saves = new LinkedHashMap<>();
    saves.put("here", repository -> save(repository, "here"));
    saves.put("by another", repository -> saveByAnother("another"));
    prepare(folder.resolve("r.git"), format);
    StringBuilder wrong = new StringBuilder();
    for (Map.Entry<String, Act> save : saves.entrySet()) {
      try (Repository repository = Lab.open(gitDir);
          Repository plain = Lab.openPlain(gitDir)) {
        AtomicInteger ours = warm(repository, Repository::scanForRepoChanges);
        AtomicInteger theirs = warm(plain, Repository::scanForRepoChanges);
        for (Map.Entry<String, Act> query : queries(MAIN).entrySet()) {
          for (Repository each : List.of(repository, plain)) {
            save.getValue().on(each);
            query.getValue().on(each);
            each.getRefDatabase().getRefs();
          }
          int[] events = {ours.getAndSet(0), theirs.getAndSet(0)};
          if (events[0] != 0 || events[1] != 0) {
            wrong.append(format + ", " + save.getKey() + ", " + query.getKey() + ": " + Arrays.toString(events) + "\n");
          }
        }
      }
    }
    assertEquals("", wrong.toString());
  }

  private void saveByAnother(String value) throws Exception {
    try (Repository other = Lab.openPlain(gitDir)) {
      save(other, value);
    }
  }

  private static void save(Repository repository, String value) throws Exception {
    StoredConfig config = repository.getConfig();
    config.setString("test", null, "value", value + System.nanoTime());
    config.save();
  }
}

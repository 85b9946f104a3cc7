package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.StoredConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Random operations give the same answers and refs as with JGit's databases, and the same reflogs as with files. */
class DifferentialTest {
  private static final int SEEDS = Integer.getInteger("refdb.test.seeds", 30);
  private static final int OPERATIONS = 60;

  @TempDir Path folder;

  @Test
  void randomOperationsGiveWhatRefDirectoryGives() throws Exception {
    for (long seed = 0; seed < SEEDS; seed++) {
      compare(seed, Lab.Format.FILES, Lab.Format.FILES);
      compare(seed, Lab.Format.REFTABLE, Lab.Format.FILES);
    }
  }

  /** JGit alone writes its tables, because it misreads some that C git writes. */
  @Test
  void randomOperationsGiveWhatFileReftableDatabaseGives() throws Exception {
    for (long seed = 0; seed < SEEDS; seed++) {
      compare(seed, Lab.Format.REFTABLE, Lab.Format.REFTABLE);
    }
  }

  private void compare(long seed, Lab.Format format, Lab.Format oracle) throws Exception {
    Path ours = Lab.create(folder.resolve("refdb-" + format + oracle + seed), format);
    Path theirs = Lab.create(folder.resolve("jgit-" + format + oracle + seed), oracle);
    Lab.Objects objects = Lab.objects(ours, 6);
    assertEquals(objects, Lab.objects(theirs, 6));
    List<ObjectId> ids = new ArrayList<>(objects.commits());
    try (RefdbRepository refdb = Lab.open(ours);
        FileRepository jgit = Lab.openPlain(theirs)) {
      boolean hasReflogs = seed % 2 == 1;
      if (hasReflogs) {
        log(refdb);
        log(jgit);
      }
      RandomOperations operations = new RandomOperations(seed, ids, oracle);
      List<String> story = new ArrayList<>();
      for (int i = 0; i < OPERATIONS; i++) {
        RandomOperations.Operation operation = operations.next();
        String expected = operation.on(jgit);
        story.add(expected);
        String context = "seed " + seed + ", " + format + ":\n" + String.join("\n", story);
        assertEquals(expected, operation.on(refdb), context);
        assertEquals(RandomOperations.state(jgit), RandomOperations.state(refdb), context);
        if (oracle == Lab.Format.FILES) { // JGit logs in tables whatever the settings say, in words of its own
          assertEquals(RandomOperations.reflogs(jgit), RandomOperations.reflogs(refdb), context);
        }
      }
    }
  }

  private static void log(Repository repository) throws Exception {
    StoredConfig config = repository.getConfig();
    config.setString("core", null, "logAllRefUpdates", "always");
    config.save();
  }
}

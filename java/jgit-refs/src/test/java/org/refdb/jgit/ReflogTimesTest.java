package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.util.SystemReader;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Reflog entries have the time and the zone that JGit gives them, according to its SystemReader. */
class ReflogTimesTest {
  private static final PersonIdent GIVEN =
      new PersonIdent("G Iven", "given@example.com", Instant.ofEpochSecond(1_500_000_000L),
          ZoneOffset.ofHoursMinutes(-3, -30));

  @TempDir Path folder;

  private interface Write {
    void to(Repository repository, PersonIdent ident, List<ObjectId> commits) throws Exception;
  }

  private static RefUpdate update(Repository repository, PersonIdent ident, ObjectId id, String name) throws Exception {
    RefUpdate update = repository.updateRef(name);
    update.setNewObjectId(id);
    update.setForceUpdate(true);
    if (ident != null) {
      update.setRefLogIdent(ident);
    }
    update.setRefLogMessage("why", false);
    return update;
  }

  private static Write batch(boolean atomic, int count) {
    return (repository, ident, commits) -> {
      BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
      batch.setAtomic(atomic);
      batch.setAllowNonFastForwards(true);
      if (ident != null) {
        batch.setRefLogIdent(ident);
      }
      batch.setRefLogMessage("why", false);
      batch.addCommand(new ReceiveCommand(commits.get(0), commits.get(1), "refs/heads/master"));
      for (int i = 1; i < count; i++) {
        batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commits.get(1), "refs/heads/new" + i));
      }
      try (RevWalk walk = new RevWalk(repository)) {
        batch.execute(walk, NullProgressMonitor.INSTANCE);
      }
    };
  }

  private static Map<String, Write> writes() {
    Map<String, Write> writes = new LinkedHashMap<>();
    writes.put("update", (r, ident, commits) -> update(r, ident, commits.get(1), "refs/heads/master").update());
    writes.put("update of HEAD", (r, ident, commits) -> update(r, ident, commits.get(1), "HEAD").update());
    writes.put(
        "link",
        (r, ident, commits) -> update(r, ident, commits.get(0), "HEAD").link("refs/heads/other"));
    writes.put(
        "rename",
        (r, ident, commits) -> {
          RefRename rename = r.renameRef("refs/heads/master", "refs/heads/renamed");
          if (ident != null) {
            rename.setRefLogIdent(ident);
          }
          rename.setRefLogMessage("why");
          rename.rename();
        });
    writes.put("one command", batch(false, 1));
    writes.put("commands", batch(false, 3));
    writes.put("one atomic command", batch(true, 1));
    writes.put("atomic commands", batch(true, 3));
    return writes;
  }

  /** Returns the committer and the time for each ref that the write has logged. */
  private Map<String, String> made(Path gitDir, Lab.Format format, boolean isPlain, Write write, PersonIdent ident)
      throws Exception {
    Lab.create(gitDir, format);
    List<ObjectId> commits = Lab.objects(gitDir, 2).commits();
    CGit.read(gitDir, "config", "core.logAllRefUpdates", "true");
    CGit.read(gitDir, "config", "user.name", "U Ser");
    CGit.read(gitDir, "config", "user.email", "user@example.com");
    CGit.read(gitDir, "update-ref", "refs/heads/master", commits.get(0).name());
    CGit.read(gitDir, "update-ref", "refs/heads/other", commits.get(0).name());
    Map<String, String> entries = new LinkedHashMap<>();
    try (Repository repository = isPlain ? Lab.openPlain(gitDir) : Lab.open(gitDir)) {
      write.to(repository, ident, commits);
      for (String name : List.of("HEAD", "refs/heads/master", "refs/heads/renamed", "refs/heads/new1")) {
        var reader = repository.getRefDatabase().getReflogReader(name);
        ReflogEntry entry = reader == null ? null : reader.getLastEntry();
        if (entry != null && entry.getComment().startsWith("why")) {
          PersonIdent who = entry.getWho();
          Instant when = who.getWhenAsInstant();
          entries.put(name, who.getName() + " " + when + " " + who.getZoneId().getRules().getOffset(when));
        }
      }
    }
    return entries;
  }

  @ParameterizedTest
  @EnumSource
  void aReflogEntryHadTheTimeOfTheMachinesClock(Lab.Format format) throws Exception {
    SystemReader before = SystemReader.getInstance();
    StringBuilder wrong = new StringBuilder();
    try {
      SystemReader.setInstance(new OtherClock(before));
      int number = 0;
      for (Map.Entry<String, Write> write : writes().entrySet()) {
        for (PersonIdent ident : new PersonIdent[] {null, GIVEN}) {
          Path at = folder.resolve("r" + number++);
          Map<String, String> theirs = made(at.resolve("plain.git"), format, true, write.getValue(), ident);
          Map<String, String> ours = made(at.resolve("refdb.git"), format, false, write.getValue(), ident);
          // Only refs that both have logged are compared: whether HEAD and a deleted ref are logged as well is another
          // question.
          theirs.keySet().retainAll(ours.keySet());
          ours.keySet().retainAll(theirs.keySet());
          assertFalse(ours.isEmpty(), write.getKey());
          if (!theirs.equals(ours)) {
            wrong.append(write.getKey() + (ident == null ? "" : " by ident") + "\n theirs " + theirs + " ours " + ours);
          }
        }
      }
    } finally {
      SystemReader.setInstance(before);
    }
    assertEquals("", wrong.toString());
  }

  /** A clock with another time, in another zone, than the machine's. */
  private static final class OtherClock extends SystemReader.Delegate {
    OtherClock(SystemReader delegate) {
      super(delegate);
    }

    @Override
    public Instant now() {
      return Instant.ofEpochSecond(1_250_379_778L);
    }

    @Override
    public ZoneOffset getTimeZoneAt(Instant when) {
      return ZoneOffset.ofHoursMinutes(4, 30);
    }

    private static ZoneId zone() {
      return ZoneOffset.ofHoursMinutes(4, 30);
    }

    @Override
    public ZoneId getTimeZoneId() {
      return zone();
    }
  }
}

package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.eclipse.jgit.api.PackRefsCommand;
import org.eclipse.jgit.internal.storage.file.GC;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.ReflogReader;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.StoredConfig;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Behaviour of JGit's ref databases, case by case: each has the same result with refdb and with JGit's database of that
 * format, except those that are listed as different.
 */
class JgitExpectationsTest {
  private static final String MASTER = "refs/heads/master";
  private static final String SIDE = "refs/heads/side";

  /** Cases that differ on purpose, with the format. {@code SHORTCOMINGS.md} has the reasons. */
  private static final Set<String> DIFFERENT = Set.of(
          "REFTABLE a fast-forward",
          "REFTABLE a forced rewind",
          "REFTABLE a linked worktree",
          "REFTABLE a push by another");

  /** One in this number of cases is tried. The long tests set it to 1, so that all are. */
  private static final int ONE_OF = Integer.parseInt(System.getenv().getOrDefault("REFDB_TEST_ONE_OF", "6"));

  @TempDir Path folder;

  interface Case {
    String on(Repository repository, List<ObjectId> ids) throws Exception;
  }

  static RefUpdate update(Repository repository, String name, ObjectId id) throws Exception {
    RefUpdate update = repository.updateRef(name);
    update.setNewObjectId(id);
    update.setRefLogMessage("set " + name, true);
    return update;
  }

  private static String delete(Repository repository, String name, boolean force) throws Exception {
    RefUpdate update = repository.updateRef(name);
    update.setForceUpdate(force);
    return update.delete() + " " + refs(repository);
  }

  static String refs(Repository repository) throws Exception {
    List<String> refs = new ArrayList<>();
    for (Ref ref : repository.getRefDatabase().getRefs()) {
      refs.add(ref.getName() + (ref.isSymbolic() ? ">" + ref.getTarget().getName() : "") + "="
          + ref.getObjectId().name());
    }
    return refs.toString();
  }

  private static String batch(Repository repository, boolean atomic, boolean force, ReceiveCommand... commands)
      throws Exception {
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    batch.setAtomic(atomic);
    batch.setAllowNonFastForwards(force);
    batch.addCommand(commands);
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    List<ReceiveCommand.Result> results = batch.getCommands().stream().map(ReceiveCommand::getResult).toList();
    return results + " " + refs(repository);
  }

  static String log(Repository repository, String name) throws Exception {
    ReflogReader reader = repository.getRefDatabase().getReflogReader(name);
    if (reader == null) {
      return "none";
    }
    StringBuilder text = new StringBuilder();
    for (ReflogEntry entry : reader.getReverseEntries()) {
      text.append(entry.getOldId().name() + " " + entry.getNewId().name() + " " + entry.getComment() + "\n");
    }
    ReflogEntry second = reader.getReverseEntry(1);
    return text + " " + reader.getReverseEntries(1).size() + (second == null ? "" : second.getComment())
        + (reader.getReverseEntry(9) == null);
  }

  private static Map<String, Case> cases() {
    Map<String, Case> cases = new LinkedHashMap<>();
    cases.put("an equal value is no change", (r, ids) -> update(r, MASTER, ids.get(1)).update().toString());
    cases.put("a fast-forward", (r, ids) -> update(r, MASTER, ids.get(2)).update() + refs(r) + log(r, MASTER));
    cases.put("a rewind is rejected", (r, ids) -> update(r, MASTER, ids.get(0)).update() + refs(r) + log(r, MASTER));
    cases.put("a forced rewind", (r, ids) -> update(r, MASTER, ids.get(0)).forceUpdate() + refs(r) + log(r, MASTER));
    cases.put("an update through HEAD", (r, ids) -> update(r, "HEAD", ids.get(2)).update() + refs(r));
    cases.put(
        "HEAD is detached",
        (r, ids) -> {
          RefUpdate head = r.updateRef("HEAD", true);
          head.setNewObjectId(ids.get(0));
          return head.forceUpdate() + refs(r);
        });
    cases.put(
        "another value is expected",
        (r, ids) -> {
          RefUpdate update = update(r, MASTER, ids.get(2));
          update.setExpectedOldObjectId(ids.get(0));
          return update.update() + refs(r);
        });
    cases.put("the current branch is not deleted", (r, ids) -> delete(r, MASTER, true));
    cases.put("a packed ref is deleted", (r, ids) -> delete(r, SIDE, true));
    cases.put("a loose ref over a packed one is deleted", (r, ids) -> update(r, SIDE, ids.get(2)).update()
        + delete(r, SIDE, true));
    cases.put("a rewound ref is not deleted without force", (r, ids) -> delete(r, "refs/heads/ahead", false));
    cases.put("a ref that is not there is deleted", (r, ids) -> delete(r, "refs/heads/none", true));
    cases.put("a ref below a ref", (r, ids) -> update(r, MASTER + "/below", ids.get(1)).update() + refs(r));
    cases.put("a ref above a ref", (r, ids) -> update(r, "refs/heads/deep", ids.get(1)).update() + refs(r));
    cases.put("a link to a ref that is not there", (r, ids) -> r.updateRef("HEAD").link("refs/heads/unborn") + refs(r));
    cases.put("a link over a ref", (r, ids) -> r.updateRef(SIDE).link(MASTER) + refs(r));
    cases.put("a rename takes the reflog along", (r, ids) -> r.renameRef(SIDE, "refs/heads/moved").rename() + refs(r));
    cases.put("a rename onto a ref", (r, ids) -> r.renameRef(SIDE, MASTER).rename() + refs(r));
    for (boolean atomic : new boolean[] {false, true}) {
      for (boolean force : new boolean[] {false, true}) {
        String kind = (atomic ? "an atomic" : "a") + (force ? " forced" : "") + " batch";
        cases.put(
            kind + " with a rewind",
            (r, ids) ->
                batch(
                    r,
                    atomic,
                    force,
                    new ReceiveCommand(ids.get(1), ids.get(0), MASTER),
                    new ReceiveCommand(ObjectId.zeroId(), ids.get(0), "refs/heads/new")));
        cases.put(
            kind + " with an old value that is wrong",
            (r, ids) ->
                batch(
                    r,
                    atomic,
                    force,
                    new ReceiveCommand(ids.get(0), ids.get(2), MASTER),
                    new ReceiveCommand(ids.get(0), ObjectId.zeroId(), SIDE)));
      }
    }
    cases.put("a name is found in JGit's order", (r, ids) -> r.findRef("both").getName() + r.resolve("side").name());
    cases.put(
        "garbage collection packs refs and keeps what they need",
        (r, ids) -> {
          new GC((FileRepository) r).gc().get();
          return refs(r) + ids.stream().map(id -> has(r, id)).toList();
        });
    cases.put("a linked worktree", JgitExpectationsTest::inWorktree);
    cases.putAll(RefCases.all());
    cases.putAll(TransportCases.all());
    return cases;
  }

  /**
   * Returns what a linked worktree changes in its own HEAD and in a branch, and what the main worktree sees of that.
   */
  private static String inWorktree(Repository main, List<ObjectId> ids) throws Exception {
    Path gitDir = main.getDirectory().toPath();
    CGit.read(gitDir, "worktree", "add", "-q", "--detach", gitDir.resolveSibling("tree").toString(), ids.get(1).name());
    Path own = gitDir.resolve("worktrees/tree");
    StringBuilder seen = new StringBuilder();
    try (Repository tree = main instanceof RefdbRepository ? Lab.open(own) : Lab.openPlain(own)) {
      seen.append(refs(tree));
      seen.append(update(tree, "HEAD", ids.get(2)).update() + " " + update(tree, SIDE, ids.get(1)).update());
      // Without the worktree's reflog of HEAD, because refdb writes it where git reads it, and JGit does not.
      seen.append(refs(tree));
    }
    return seen + refs(main) + log(main, SIDE);
  }

  private static boolean has(Repository repository, ObjectId id) {
    try {
      return repository.getObjectDatabase().has(id);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  private static String outcome(Repository repository, List<ObjectId> ids, Case each) {
    try {
      return each.on(repository, ids);
    } catch (Exception e) {
      return e.getClass().getSimpleName();
    }
  }

  private void prepare(Path gitDir, Lab.Format format) throws Exception {
    Lab.create(gitDir, format);
    List<ObjectId> ids = Lab.objects(gitDir, 3).commits();
    try (Repository plain = Lab.openPlain(gitDir)) {
      StoredConfig config = plain.getConfig();
      config.setString("core", null, "logAllRefUpdates", "true");
      config.setBoolean("core", null, "bare", false);
      config.save();
    }
    try (Repository plain = Lab.openPlain(gitDir)) {
      update(plain, MASTER, ids.get(0)).update();
      update(plain, MASTER, ids.get(1)).update();
      for (String name : List.of(SIDE, "refs/heads/deep/er", "refs/heads/both", "refs/tags/both")) {
        update(plain, name, ids.get(0)).update();
      }
      update(plain, "refs/heads/ahead", ids.get(2)).update();
      plain.getRefDatabase().packRefs(NullProgressMonitor.INSTANCE, new PackRefsCommand(plain).setAll(true));
    }
  }

  /** Returns the outcome of a case on a copy of the prepared repository. */
  private static String outcome(Path prepared, Path gitDir, boolean isPlain, Case each) throws Exception {
    Files.createDirectories(gitDir.getParent());
    EventsTest.copy(prepared, gitDir);
    List<ObjectId> ids = Lab.objects(gitDir, 3).commits();
    try (Repository repository = isPlain ? Lab.openPlain(gitDir) : Lab.open(gitDir)) {
      return outcome(repository, ids, each);
    }
  }

  @ParameterizedTest
  @EnumSource
  void eachCaseIsAsInJgit(Lab.Format format) throws Exception {
    int number = 0;
    StringBuilder wrong = new StringBuilder();
    Path prepared = folder.resolve("prepared/.git");
    prepare(prepared, format);
    for (Map.Entry<String, Case> each : cases().entrySet()) {
      if (number++ % ONE_OF != 1 % ONE_OF) {
        continue;
      }
      Path at = folder.resolve("case" + number);
      String theirs = outcome(prepared, at.resolve("plain/.git"), true, each.getValue());
      String ours = outcome(prepared, at.resolve("refdb/.git"), false, each.getValue());
      String named = format + " " + each.getKey();
      if (theirs.equals(ours) == (DIFFERENT.contains(named) || RefCases.DIFFERENT.contains(named))) {
        wrong.append(each.getKey() + ":\n JGit  " + theirs + "\n refdb " + ours + "\n");
      }
    }
    assertEquals("", wrong.toString());
  }
}

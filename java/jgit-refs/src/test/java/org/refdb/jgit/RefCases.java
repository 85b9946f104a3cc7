package org.refdb.jgit;

import static org.refdb.jgit.JgitExpectationsTest.refs;
import static org.refdb.jgit.JgitExpectationsTest.update;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.eclipse.jgit.api.PackRefsCommand;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.ReflogReader;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.StoredConfig;
import org.eclipse.jgit.lib.TagBuilder;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.refdb.jgit.JgitExpectationsTest.Case;

/**
 * Cases of {@link JgitExpectationsTest} for single refs, names, batches and reflogs: what the interfaces of JGit's
 * {@code RefDatabase}, {@code RefUpdate}, {@code BatchRefUpdate} and {@code ReflogReader} promise.
 */
final class RefCases {
  private static final String MASTER = "refs/heads/master";
  private static final String SIDE = "refs/heads/side";
  private static final String NONE = "refs/heads/none";
  private static final ObjectId ZERO = ObjectId.zeroId();
  private static final ObjectId MISSING = ObjectId.fromString("00000000000000000000000000000000deadbeef");

  /** Cases that differ on purpose, with the format. {@code SHORTCOMINGS.md} has the reasons. */
  static final Set<String> DIFFERENT = Set.of(
          "FILES a bad name is written",
          "REFTABLE a bad name is written",
          "FILES a rename to a bad name",
          "REFTABLE a rename to a bad name",
          "FILES a batch with a bad name",
          "REFTABLE a batch with a bad name",
          "FILES an atomic batch with a bad name",
          "REFTABLE an atomic batch with a bad name",
          "REFTABLE refs by several prefixes",
          "REFTABLE root refs are additional",
          "FILES a rename of what is not there",
          "FILES a rename to itself",
          "FILES a batch of symbolic refs",
          "FILES an atomic batch of symbolic refs",
          "FILES an atomic batch that deletes what is in the way",
          "REFTABLE an atomic batch of a name below a ref",
          "REFTABLE a batch of one ref twice",
          "REFTABLE an atomic batch of one ref twice",
          "FILES a message of several lines",
          "REFTABLE a message of several lines",
          "REFTABLE a ref of a foreign folder",
          "REFTABLE a deleted ref has no reflog and begins a new one",
          "REFTABLE HEAD goes along with its branch",
          "REFTABLE an update without an entry in the reflog",
          "REFTABLE core.logAllRefUpdates is false",
          "REFTABLE a reflog is read by number and from HEAD",
          "REFTABLE the reflog of a ref that is not there");

  private RefCases() {}

  static Map<String, Case> all() {
    Map<String, Case> cases = new LinkedHashMap<>();
    reads(cases);
    symbolic(cases);
    updates(cases);
    deletions(cases);
    renames(cases);
    batches(cases);
    reflogs(cases);
    return cases;
  }

  private static String text(Ref ref) {
    if (ref == null) {
      return "none";
    }
    String leaf = ref.isSymbolic() ? ">" + ref.getTarget().getName() + ">"
        + ref.getLeaf().getName() : "";
    return ref.getName() + leaf + "="
        + (ref.getObjectId() == null ? "unborn" : ref.getObjectId().name());
  }

  /** Returns a reflog, with the words for results that JGit writes with files. */
  private static String log(Repository repository, String name) throws Exception {
    return JgitExpectationsTest.log(repository, name)
        .replace(": NEW", ": created")
        .replace(": FAST_FORWARD", ": fast-forward");
  }

  private static String texts(Iterable<Ref> refs) {
    List<String> texts = new ArrayList<>();
    refs.forEach(ref -> texts.add(text(ref)));
    return texts.toString();
  }

  /** Returns the result of an attempt, or the kind of its failure. */
  private static String attempt(Attempt attempt) {
    try {
      return String.valueOf(attempt.made());
    } catch (Exception e) {
      return e.getClass().getSimpleName();
    }
  }

  private interface Attempt {
    Object made() throws Exception;
  }

  private static RefDatabase database(Repository repository) {
    return repository.getRefDatabase();
  }

  private static ObjectId tag(Repository repository, ObjectId object, String name) throws Exception {
    try (ObjectInserter inserter = repository.newObjectInserter()) {
      TagBuilder tag = new TagBuilder();
      tag.setObjectId(object, Constants.OBJ_COMMIT);
      tag.setTag(name);
      tag.setTagger(Lab.WHO);
      tag.setMessage(name);
      ObjectId id = inserter.insert(tag);
      inserter.flush();
      return id;
    }
  }

  // The list of names below a folder is deprecated, but still used by callers that are not.
  @SuppressWarnings("deprecation")
  private static void reads(Map<String, Case> cases) {
    cases.put("exact names", (r, ids) -> {
      StringBuilder found = new StringBuilder();
      for (String name : List.of(MASTER, "HEAD", "master", "heads/master", NONE, "refs/heads/",
          "refs/heads/deep", "refs",
          "refs/heads/deep/er", "FETCH_HEAD", "ORIG_HEAD")) {
        found.append(attempt(() -> text(database(r).exactRef(name)))).append(' ');
      }
      return found.toString();
    });
    cases.put("several exact names", (r, ids) ->
        new TreeMap<>(database(r).exactRef(SIDE, NONE, "HEAD", MASTER)).keySet()
            + text(database(r).firstExactRef(NONE, SIDE, MASTER))
                + text(database(r).firstExactRef(NONE))
            + database(r).exactRef().size());
    cases.put("names that are found", (r, ids) -> {
      StringBuilder found = new StringBuilder();
      for (String name : List.of("master", "heads/master", "side", "both", "er", "deep/er",
          "tags/both", "HEAD", "none",
          "refs/heads/both", "remotes/both", "@")) {
        found.append(attempt(() -> text(r.findRef(name)))).append(' ');
      }
      return found.toString();
    });
    cases.put("refs by prefix", (r, ids) -> {
      StringBuilder found = new StringBuilder();
      for (String prefix : List.of("", "refs/", "refs/heads/", "refs/heads/d", "refs/heads/deep",
          "refs/heads/deep/", "HEAD",
          "refs/none/", "refs/tags/", MASTER)) {
        found.append(prefix).append(texts(database(r).getRefsByPrefix(prefix))).append('\n');
      }
      return found.toString();
    });
    cases.put("refs by several prefixes", (r, ids) ->
        texts(database(r).getRefsByPrefix("refs/tags/", "refs/heads/s", "refs/heads/", NONE))
            + texts(database(r).getRefsByPrefix()));
    cases.put("refs by prefix but for others", (r, ids) ->
        texts(database(r).getRefsByPrefixWithExclusions("refs/", Set.of("refs/heads/d",
            "refs/tags/")))
            + texts(database(r).getRefsByPrefixWithExclusions("refs/heads/", Set.of("refs/heads/")))
            + texts(database(r).getRefsByPrefixWithExclusions("refs/heads/", Set.of(NONE))));
    cases.put("refs below a folder by their names in it", (r, ids) ->
        new TreeMap<>(database(r).getRefs("refs/heads/")).keySet() + ""
            + new TreeMap<>(database(r).getRefs("")).keySet() + database(r).getRefs("refs/none/"));
    cases.put("whether there are refs", (r, ids) -> database(r).hasRefs() + "");
    cases.put("root refs are additional", (r, ids) -> {
      update(r, "ORIG_HEAD", ids.get(0)).forceUpdate();
      r.writeMergeHeads(List.of(ids.get(1)));
      return texts(database(r).getAdditionalRefs()) + refs(r) + text(r.findRef("ORIG_HEAD"));
    });
    cases.put("a tag is peeled, loose and packed", (r, ids) -> {
      update(r, "refs/tags/t", tag(r, ids.get(1), "t")).update();
      String loose = peeled(r, "refs/tags/t") + peeled(r, MASTER) + peeled(r, "HEAD");
      database(r).packRefs(NullProgressMonitor.INSTANCE, new PackRefsCommand(r).setAll(true));
      return loose + peeled(r, "refs/tags/t") + peeled(r, MASTER) + peeled(r, "HEAD");
    });
    cases.put("a ref to a missing object is listed and peeled", (r, ids) -> {
      String written = attempt(() -> update(r, "refs/heads/lost", MISSING).forceUpdate());
      return written + attempt(() -> text(database(r).exactRef("refs/heads/lost")));
    });
    cases.put("refs that lead to an object", (r, ids) -> {
      update(r, "refs/tags/t", tag(r, ids.get(1), "t")).update();
      // The refs are packed, because JGit does not know where a loose tag leads.
      database(r).packRefs(NullProgressMonitor.INSTANCE, new PackRefsCommand(r).setAll(true));
      StringBuilder found = new StringBuilder();
      for (ObjectId id : List.of(ids.get(0), ids.get(1), ids.get(2), MISSING)) {
        Set<String> names = new TreeSet<>();
        database(r).getTipsWithSha1(id).forEach(ref -> names.add(ref.getName()));
        found.append(names);
      }
      return found.toString();
    });
    cases.put("names that are in the way of others", (r, ids) -> {
      StringBuilder found = new StringBuilder();
      for (String name : List.of("refs/heads/deep", "refs/heads/deep/er", "refs/heads/deep/er/x",
          "refs/heads/de", MASTER + "/x",
          NONE, "refs/heads")) {
        found.append(new TreeSet<>(database(r).getConflictingNames(name)))
            .append(database(r).isNameConflicting(name));
      }
      return found.toString();
    });
    cases.put("names that are none", (r, ids) -> {
      StringBuilder found = new StringBuilder();
      for (String name : List.of("refs/heads/../x", "refs/heads/a..b", "refs/heads/x.lock",
          "refs/heads/a b", "refs//x", "")) {
        found.append(Repository.isValidRefName(name)).append(attempt(() ->
            text(database(r).exactRef(name)))).append(' ');
      }
      return found.toString();
    });
    cases.put("a bad name is written", (r, ids) ->
        attempt(() -> update(r, "refs/heads/a..b", ids.get(0)).update()) + attempt(() -> refs(r)));
  }

  private static String peeled(Repository repository, String name) throws Exception {
    Ref ref = database(repository).peel(database(repository).exactRef(name));
    ObjectId peeled = ref.getPeeledObjectId();
    return ref.isPeeled() + (peeled == null ? "none" : peeled.name()) + " ";
  }

  private static void symbolic(Map<String, Case> cases) {
    cases.put("a chain of symbolic refs", (r, ids) -> {
      String before = MASTER;
      StringBuilder found = new StringBuilder();
      for (int at = 1; at <= 6; at++) {
        String name = "refs/heads/link" + at;
        found.append(r.updateRef(name).link(before)).append(attempt(() ->
            text(database(r).exactRef(name)))).append(' ');
        before = name;
      }
      return found.toString();
    });
    cases.put("a circle of symbolic refs", (r, ids) -> {
      r.updateRef("refs/heads/a").link("refs/heads/b");
      r.updateRef("refs/heads/b").link("refs/heads/a");
      return attempt(() -> text(database(r).exactRef(MASTER))) + refs(r);
    });
    cases.put("an unborn HEAD", (r, ids) -> {
      String linked = r.updateRef("HEAD").link("refs/heads/unborn")
          + text(database(r).exactRef("HEAD"));
      RefUpdate head = update(r, "HEAD", ids.get(2));
      return linked + head.update() + head.getName() + refs(r) + log(r, "refs/heads/unborn");
    });
    cases.put("a detached HEAD is linked again", (r, ids) -> {
      RefUpdate head = r.updateRef("HEAD", true);
      head.setNewObjectId(ids.get(2));
      String detached = head.forceUpdate() + text(database(r).exactRef("HEAD"));
      return detached + r.updateRef("HEAD").link(SIDE) + text(database(r).exactRef("HEAD"))
          + r.updateRef("HEAD").link(SIDE);
    });
    cases.put("a link to no ref's name", (r, ids) ->
        attempt(() -> r.updateRef("HEAD").link("master")) + refs(r));
    cases.put("a symbolic ref is deleted, or what it leads to", (r, ids) -> {
      r.updateRef("refs/heads/one").link(SIDE);
      r.updateRef("refs/heads/two").link("refs/heads/ahead");
      RefUpdate own = r.updateRef("refs/heads/one", true);
      own.setForceUpdate(true);
      RefUpdate through = r.updateRef("refs/heads/two");
      through.setForceUpdate(true);
      return own.delete() + " " + through.delete() + refs(r)
          + text(database(r).exactRef("refs/heads/two"));
    });
    cases.put("an update that detaches a symbolic ref", (r, ids) -> {
      r.updateRef("refs/heads/one").link(SIDE);
      RefUpdate update = r.updateRef("refs/heads/one", true);
      update.setNewObjectId(ids.get(2));
      return update.forceUpdate() + refs(r);
    });
  }

  private static void updates(Map<String, Case> cases) {
    cases.put("an update without a value", (r, ids) ->
        attempt(() -> r.updateRef(MASTER).update()) + refs(r));
    cases.put("an update tells what it did", (r, ids) -> {
      RefUpdate update = update(r, MASTER, ids.get(2));
      String before = update.getResult() + " " + update.getOldObjectId() + text(update.getRef());
      return before + update.update() + update.getResult() + update.getOldObjectId()
          + update.getNewObjectId() + update.getName();
    });
    cases.put("nothing is expected of a new ref and of one that is there", (r, ids) -> {
      RefUpdate fresh = update(r, NONE, ids.get(0));
      fresh.setExpectedOldObjectId(ZERO);
      RefUpdate old = update(r, SIDE, ids.get(2));
      old.setExpectedOldObjectId(ZERO);
      return fresh.update() + " " + old.update() + refs(r);
    });
    cases.put("the right value is expected", (r, ids) -> {
      RefUpdate update = update(r, SIDE, ids.get(2));
      update.setExpectedOldObjectId(ids.get(0));
      return update.update() + refs(r) + log(r, SIDE);
    });
    cases.put("a tag is moved to another object", (r, ids) -> {
      ObjectId one = tag(r, ids.get(1), "t");
      ObjectId two = tag(r, ids.get(0), "t");
      return update(r, "refs/tags/t", one).update() + " " + update(r, "refs/tags/t", two).update()
          + " "
          + update(r, "refs/tags/t", two).forceUpdate() + " " + update(r, "refs/tags/t",
              two).update() + refs(r);
    });
    cases.put("an update with a walk", (r, ids) -> {
      try (RevWalk walk = new RevWalk(r)) {
        return update(r, SIDE, ids.get(2)).update(walk) + " " + update(r, SIDE,
            ids.get(1)).update(walk) + refs(r);
      }
    });
    cases.put("two updates of which the second was made before", (r, ids) -> {
      RefUpdate one = update(r, SIDE, ids.get(1));
      RefUpdate two = update(r, SIDE, ids.get(2));
      one.setExpectedOldObjectId(ids.get(0));
      two.setExpectedOldObjectId(ids.get(0));
      return one.update() + " " + two.update() + refs(r);
    });
    cases.put("a ref of a foreign folder", (r, ids) ->
        update(r, "refs/any/thing", ids.get(0)).update() + refs(r)
        + log(r, "refs/any/thing"));
  }

  private static void deletions(Map<String, Case> cases) {
    cases.put("a deletion that expects a value", (r, ids) -> {
      RefUpdate wrong = r.updateRef(SIDE);
      wrong.setExpectedOldObjectId(ids.get(2));
      wrong.setForceUpdate(true);
      RefUpdate right = r.updateRef("refs/heads/both");
      right.setExpectedOldObjectId(ids.get(0));
      right.setForceUpdate(true);
      return wrong.delete() + " " + right.delete() + refs(r);
    });
    cases.put("a deleted ref makes room above and below it", (r, ids) -> {
      RefUpdate update = r.updateRef("refs/heads/deep/er");
      update.setForceUpdate(true);
      return update.delete() + " " + update(r, "refs/heads/deep", ids.get(1)).update() + refs(r);
    });
    cases.put("a deleted ref has no reflog and begins a new one", (r, ids) -> {
      RefUpdate update = r.updateRef(SIDE);
      update.setForceUpdate(true);
      String deleted = update.delete() + log(r, SIDE);
      return deleted + update(r, SIDE, ids.get(1)).update() + log(r, SIDE);
    });
    cases.put("a merged ref is deleted without force", (r, ids) ->
        r.updateRef(SIDE).delete() + refs(r));
  }

  private static void renames(Map<String, Case> cases) {
    cases.put("a rename of what is not there", (r, ids) ->
        attempt(() -> r.renameRef(NONE, "refs/heads/x").rename()) + refs(r));
    cases.put("a rename to itself", (r, ids) ->
        attempt(() -> r.renameRef(SIDE, SIDE).rename()) + refs(r));
    cases.put("HEAD goes along with its branch", (r, ids) ->
        r.renameRef(MASTER, "refs/heads/moved").rename() + refs(r) + log(r,
            "refs/heads/moved").contains("set " + MASTER));
    cases.put("a rename above itself", (r, ids) ->
        r.renameRef("refs/heads/deep/er", "refs/heads/deep").rename() + refs(r));
    cases.put("a rename below itself", (r, ids) ->
        r.renameRef(SIDE, SIDE + "/x").rename() + refs(r));
    cases.put("a rename to a bad name", (r, ids) ->
        attempt(() -> r.renameRef(SIDE, "refs/heads/a..b").rename()) + refs(r));
  }

  private static String execute(BatchRefUpdate batch, Repository repository,
      ReceiveCommand... commands) throws Exception {
    batch.addCommand(commands);
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    return batch.getCommands().stream().map(ReceiveCommand::getResult).toList() + " "
        + refs(repository);
  }

  private static ReceiveCommand command(ObjectId from, ObjectId to, String name) {
    return new ReceiveCommand(from, to, name);
  }

  private static void batches(Map<String, Case> cases) {
    for (boolean atomic : new boolean[] {false, true}) {
      String kind = atomic ? "an atomic batch" : "a batch";
      put(cases, kind + " without commands", atomic, ids -> List.of());
      put(cases, kind + " of a creation, an update and a deletion", atomic, ids -> List.of(
          command(ZERO, ids.get(0), NONE), command(ids.get(1), ids.get(2), MASTER),
              command(ids.get(0), ZERO, SIDE)));
      put(cases, kind + " of one ref twice", atomic, ids -> List.of(
          command(ids.get(0), ids.get(1), SIDE), command(ids.get(0), ids.get(2), SIDE)));
      put(cases, kind + " of two names of which one is above the other", atomic, ids -> List.of(
          command(ZERO, ids.get(0), "refs/heads/new"), command(ZERO, ids.get(0),
              "refs/heads/new/er")));
      put(cases, kind + " of a name below a ref", atomic, ids -> List.of(
          command(ZERO, ids.get(0), NONE), command(ZERO, ids.get(0), MASTER + "/x")));
      put(cases, kind + " that deletes what is in the way", atomic, ids -> List.of(
          command(ids.get(0), ZERO, "refs/heads/deep/er"), command(ZERO, ids.get(1),
              "refs/heads/deep")));
      put(cases, kind + " that creates what is there", atomic, ids -> List.of(
          command(ZERO, ids.get(1), SIDE), command(ZERO, ids.get(0), NONE)));
      put(cases, kind + " that changes what is not there", atomic, ids -> List.of(
          command(ids.get(0), ids.get(1), NONE), command(ids.get(0), ids.get(1), SIDE)));
      put(cases, kind + " that deletes what is not there", atomic, ids -> List.of(
          command(ids.get(0), ids.get(1), SIDE), command(ids.get(0), ZERO, NONE)));
      put(cases, kind + " with a missing object", atomic, ids -> List.of(
          command(ZERO, MISSING, NONE), command(ids.get(0), ids.get(1), SIDE)));
      put(cases, kind + " with a bad name", atomic, ids -> List.of(
          command(ZERO, ids.get(0), "refs/heads/a..b"), command(ids.get(0), ids.get(1), SIDE)));
      put(cases, kind + " that leaves values as they are", atomic, ids -> List.of(
          command(ids.get(0), ids.get(0), SIDE), command(ids.get(1), ids.get(1), MASTER)));
      put(cases, kind + " of symbolic refs", atomic, ids -> List.of(
          ReceiveCommand.link(ZERO, SIDE, "refs/heads/one"), ReceiveCommand.link(ids.get(0), MASTER,
              "refs/heads/both")));
      put(cases, kind + " with a command that was refused before", atomic, ids -> {
        ReceiveCommand refused = command(ids.get(0), ids.get(1), "refs/heads/both");
        refused.setResult(ReceiveCommand.Result.REJECTED_OTHER_REASON, "no");
        return List.of(refused, command(ids.get(0), ids.get(1), SIDE));
      });
      cases.put(kind + " writes reflogs as it is told", (r, ids) -> {
        BatchRefUpdate batch = database(r).newBatchUpdate();
        batch.setAtomic(atomic);
        batch.setRefLogMessage("all", true);
        ReceiveCommand own = command(ids.get(0), ids.get(1), "refs/heads/both");
        own.setRefLogMessage("own", false);
        ReceiveCommand silent = command(ids.get(0), ids.get(1), "refs/heads/deep/er");
        silent.disableRefLog();
        String made = execute(batch, r, command(ids.get(0), ids.get(1), SIDE), own, silent);
        return made + log(r, SIDE) + log(r, "refs/heads/both") + log(r, "refs/heads/deep/er");
      });
      cases.put(kind + " without reflogs", (r, ids) -> {
        BatchRefUpdate batch = database(r).newBatchUpdate();
        batch.setAtomic(atomic);
        batch.disableRefLog();
        return execute(batch, r, command(ids.get(0), ids.get(1), SIDE)) + log(r, SIDE);
      });
    }
  }

  private interface Commands {
    List<ReceiveCommand> of(List<ObjectId> ids);
  }

  private static void put(Map<String, Case> cases, String name, boolean atomic, Commands commands) {
    cases.put(name, (r, ids) -> {
      BatchRefUpdate batch = database(r).newBatchUpdate();
      batch.setAtomic(atomic);
      batch.setAllowNonFastForwards(true);
      return execute(batch, r, commands.of(ids).toArray(ReceiveCommand[]::new));
    });
  }

  private static void reflogs(Map<String, Case> cases) {
    cases.put("an update without an entry in the reflog", (r, ids) -> {
      RefUpdate update = update(r, SIDE, ids.get(1));
      update.disableRefLog();
      return update.update() + log(r, SIDE);
    });
    cases.put("a reflog that is wanted where none would be written", (r, ids) -> {
      RefUpdate update = update(r, "refs/any/thing", ids.get(1));
      update.setForceRefLog(true);
      return update.update() + log(r, "refs/any/thing");
    });
    cases.put("a message of several lines", (r, ids) -> {
      RefUpdate update = update(r, SIDE, ids.get(1));
      update.setRefLogMessage("one\ntwo\r\n three\t\n", false);
      return update.update() + log(r, SIDE);
    });
    cases.put("no message", (r, ids) -> {
      RefUpdate update = update(r, SIDE, ids.get(1));
      update.setRefLogMessage("", false);
      return update.update() + log(r, SIDE);
    });
    for (String value : List.of("false", "always")) {
      cases.put("core.logAllRefUpdates is " + value, (r, ids) -> {
        StoredConfig config = r.getConfig();
        config.setString("core", null, "logAllRefUpdates", value);
        config.save();
        return update(r, "refs/any/thing", ids.get(1)).update() + " " + update(r, NONE,
            ids.get(1)).update() + " "
            + update(r, SIDE, ids.get(1)).update() + (log(r, "refs/any/thing") + log(r, NONE)
                + log(r, SIDE));
      });
    }
    cases.put("a reflog is read by number and from HEAD", (r, ids) -> {
      update(r, "HEAD", ids.get(2)).update();
      RefUpdate head = r.updateRef("HEAD", true);
      head.setNewObjectId(ids.get(0));
      head.setRefLogMessage("checkout: moving from master to " + ids.get(0).name(), false);
      head.forceUpdate();
      ReflogReader reader = database(r).getReflogReader("HEAD");
      ReflogEntry last = reader.getLastEntry();
      ReflogEntry same = reader.getReverseEntry(0);
      List<String> checkout = last.parseCheckout() == null
          ? List.of()
          : Arrays.asList(last.parseCheckout().getFromBranch(), last.parseCheckout().getToBranch());
      return last.getComment() + same.getComment() + checkout + reader.getReverseEntries().size()
          + reader.getReverseEntries(1).size() + last.getOldId() + last.getNewId();
    });
    cases.put("the reflog of a ref that is not there", (r, ids) -> attempt(() -> {
      ReflogReader reader = database(r).getReflogReader(NONE);
      return reader == null ? "none" : reader.getReverseEntries() + "" + reader.getLastEntry();
    }));
  }
}

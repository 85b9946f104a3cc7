package org.refdb.jgit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.eclipse.jgit.api.PackRefsCommand;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;

/** Random operations on any repository through JGit's interface. Each of them describes its outcome in one line. */
final class RandomOperations {
  static final String[] NAMES = {
    "refs/heads/master", "refs/heads/a", "refs/heads/b", "refs/heads/a/b", "refs/heads/a/b/c", "refs/heads/a-b",
    "refs/tags/v1", "refs/tags/v2", "refs/changes/01/1/1", "refs/changes/01/1/meta", "refs/changes/02/2/1",
  };
  private static final String[] PREFIXES = {
    "", "refs/", "refs/heads/", "refs/heads/a", "refs/heads/a/", "refs/changes/", "refs/changes/0", "refs/none/",
    "HEAD", "H", "master",
  };

  private final Random random;
  private final List<ObjectId> ids;
  private final Lab.Format oracle;

  /**
   * @param oracle the format of JGit's repository. Its database of tables makes every batch atomic, does not report
   *     that a command is a rewind, and looks for rewinds before it looks at old values
   */
  RandomOperations(long seed, List<ObjectId> ids, Lab.Format oracle) {
    this.random = new Random(seed);
    this.ids = ids;
    this.oracle = oracle;
  }

  /** An operation that does the same on every repository. */
  interface Operation {
    String on(Repository repository) throws IOException;
  }

  Operation next() {
    int kind = random.nextInt(100);
    if (kind < 30) {
      return update();
    } else if (kind < 40) {
      return delete();
    } else if (kind < 45) {
      return link();
    } else if (kind < 65) {
      return batch();
    } else if (kind < 70) {
      return rename();
    } else if (kind < 74) {
      return pack();
    }
    return question();
  }

  private String name() {
    return random.nextInt(12) == 0 ? "HEAD" : NAMES[random.nextInt(NAMES.length)];
  }

  private ObjectId id() {
    return ids.get(random.nextInt(ids.size()));
  }

  /** Returns an expectation that is met, one that is not, or none. It gets the ref's current value. */
  private Expectation expectation() {
    ObjectId other = id();
    return switch (random.nextInt(4)) {
      case 0 -> current -> other;
      case 1 -> current -> null;
      case 2 -> current -> ObjectId.zeroId();
      default -> current -> current == null ? ObjectId.zeroId() : current;
    };
  }

  private interface Expectation {
    ObjectId of(ObjectId current);
  }

  private static ObjectId current(Repository repository, String name) throws IOException {
    Ref ref = repository.exactRef(name);
    return ref == null ? null : ref.getObjectId();
  }

  private Operation update() {
    String name = name();
    ObjectId id = id();
    boolean force = random.nextBoolean();
    boolean detach = random.nextInt(5) == 0;
    Expectation expected = expectation();
    String message = random.nextInt(4) == 0 ? null : "message " + random.nextInt(3);
    boolean append = random.nextBoolean();
    boolean forceLog = random.nextInt(5) == 0;
    return repository -> {
      Ref present = repository.exactRef(name);
      if (present != null && repository.getRefDatabase().isNameConflicting(present.getLeaf().getName())) {
        // Through a symbolic ref, JGit creates a ref whose name is a folder of other refs.
        return "update of a ref that cannot be";
      }
      RefUpdate update = repository.getRefDatabase().newUpdate(name, detach);
      update.setNewObjectId(id);
      update.setForceUpdate(force);
      update.setExpectedOldObjectId(expected.of(current(repository, name)));
      update.setRefLogIdent(Lab.WHO);
      update.setRefLogMessage(message, append && message != null);
      update.setForceRefLog(forceLog);
      return "update " + name + (detach ? " detached " : " ") + id.name() + told(update, update::update);
    };
  }

  private interface Call {
    RefUpdate.Result make() throws IOException;
  }

  /**
   * Returns the outcome. JGit cannot lock a ref where there is a folder, or below a file: it throws, or says that it
   * has no lock.
   */
  private static String told(RefUpdate update, Call call) {
    RefUpdate.Result result;
    try {
      result = call.make();
    } catch (IOException e) {
      return " not possible";
    }
    if (result == RefUpdate.Result.LOCK_FAILURE || result == RefUpdate.Result.IO_FAILURE) {
      return " not possible";
    }
    return " " + result + (update == null ? "" : " " + update.getOldObjectId());
  }

  private Operation delete() {
    String name = name();
    boolean force = random.nextInt(4) > 0;
    Expectation expected = expectation();
    return repository -> {
      Ref present = repository.exactRef(name);
      if (present != null && repository.getRefDatabase().isNameConflicting(present.getLeaf().getName())) {
        return "deletion of a ref that cannot be";
      }
      RefUpdate update = repository.updateRef(name);
      update.setForceUpdate(force);
      update.setExpectedOldObjectId(expected.of(current(repository, name)));
      return "delete " + name + told(update, update::delete);
    };
  }

  private Operation link() {
    // Only HEAD, because JGit's ref directory lists what was packed under the name of any other dangling symbolic ref.
    String name = "HEAD";
    String target = NAMES[random.nextInt(NAMES.length)];
    return repository -> {
      RefUpdate update = repository.updateRef(name);
      update.setRefLogIdent(Lab.WHO);
      update.disableRefLog();
      return "link " + name + " " + target + told(update, () -> update.link(target));
    };
  }

  private record Command(String name, ObjectId id, Expectation expected) {
    boolean isDelete() {
      return id.equals(ObjectId.zeroId());
    }

    boolean isAbove(Command other) {
      return !isDelete() && other.name.startsWith(name + "/");
    }
  }

  private Operation batch() {
    boolean atomic = random.nextBoolean() || oracle == Lab.Format.REFTABLE;
    boolean allowed = random.nextBoolean();
    String message = random.nextInt(4) == 0 ? null : "batch " + random.nextInt(3);
    boolean append = random.nextBoolean();
    Set<String> names = new TreeSet<>();
    int count = 1 + random.nextInt(4);
    while (names.size() < count) {
      names.add(NAMES[random.nextInt(NAMES.length)]);
    }
    List<Command> wishes = new ArrayList<>();
    for (String name : names) {
      boolean isDelete = random.nextInt(4) == 0;
      ObjectId other = id();
      Expectation expected =
          random.nextInt(6) == 0 ? current -> other : current -> current == null ? ObjectId.zeroId() : current;
      wishes.add(new Command(name, isDelete ? ObjectId.zeroId() : id(), expected));
    }
    boolean makesRoom =
        wishes.stream().anyMatch(gone -> gone.isDelete() && wishes.stream().anyMatch(made -> made.isAbove(gone)));
    return repository -> {
      if (atomic && makesRoom) {
        return "batch that JGit's ref directory refuses";
      }
      BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
      batch.setAtomic(atomic);
      batch.setAllowNonFastForwards(allowed);
      batch.setRefLogIdent(Lab.WHO);
      batch.setRefLogMessage(message, append && message != null);
      List<ReceiveCommand> commands = new ArrayList<>();
      for (Command wish : wishes) {
        Ref present = repository.exactRef(wish.name);
        if (present != null && present.isSymbolic()) {
          // JGit's ref directory packs the symbolic ref's name, or changes its target first.
          return "batch on a symbolic ref";
        }
        if (present != null && wish.id.equals(present.getObjectId())) {
          // JGit's ref directory writes a reflog entry for such a command, but only in an atomic batch.
          return "batch that changes nothing";
        }
        ObjectId old = wish.expected.of(current(repository, wish.name));
        if (!old.equals(ObjectId.zeroId()) || !wish.id.equals(ObjectId.zeroId())) {
          commands.add(new ReceiveCommand(old, wish.id, wish.name));
        }
      }
      batch.addCommand(commands);
      try (RevWalk walk = new RevWalk(repository)) {
        batch.execute(walk, NullProgressMonitor.INSTANCE);
      }
      StringBuilder told = new StringBuilder(atomic ? "atomic batch" : "batch");
      boolean failed = commands.stream().anyMatch(command -> command.getResult() != ReceiveCommand.Result.OK);
      if (atomic && commands.size() > 1 && failed) {
        // If there are several reasons, each of JGit's own databases gives another one.
        boolean all = commands.stream().noneMatch(command -> command.getResult() == ReceiveCommand.Result.OK);
        return told + (all ? " refused" : " refused in part");
      }
      for (ReceiveCommand command : commands) {
        told.append(' ').append(oracle == Lab.Format.REFTABLE ? "" : command.getType()).append(' ');
        told.append(command.getRefName()).append(' ').append(inShort(command));
      }
      return told.toString();
    };
  }

  /** Returns a command's outcome. JGit reports a name conflict as an I/O error if it cannot even create the lock. */
  private String inShort(ReceiveCommand command) {
    return switch (command.getResult()) {
      case LOCK_FAILURE, REJECTED_OTHER_REASON -> "not possible";
      case REJECTED_NONFASTFORWARD -> oracle == Lab.Format.REFTABLE ? "not possible" : "REJECTED_NONFASTFORWARD";
      default -> command.getResult().name();
    };
  }

  private Operation rename() {
    String from = NAMES[random.nextInt(NAMES.length)];
    String to = NAMES[random.nextInt(NAMES.length)];
    return repository -> {
      // JGit's ref directory loses the ref if the new name is impossible (RefdbRenameTest has that case).
      if (from.equals(to)
          || repository.exactRef(from) == null
          || repository.exactRef(to) != null
          || repository.getRefDatabase().isNameConflicting(to)) {
        return "rename nothing";
      }
      var rename = repository.getRefDatabase().newRename(from, to);
      rename.setRefLogIdent(Lab.WHO);
      return "rename " + from + " " + to + told(null, rename::rename);
    };
  }

  private Operation pack() {
    boolean all = random.nextBoolean();
    return repository -> {
      PackRefsCommand command = new PackRefsCommand(repository).setAll(all);
      repository.getRefDatabase().packRefs(NullProgressMonitor.INSTANCE, command);
      return "pack";
    };
  }

  private Operation question() {
    String name = name();
    String prefix = PREFIXES[random.nextInt(PREFIXES.length)];
    String other = PREFIXES[random.nextInt(PREFIXES.length)];
    ObjectId id = id();
    return switch (random.nextInt(8)) {
      case 0 -> repository -> "exact " + name + " " + told(repository.exactRef(name));
      case 1 -> repository -> "find " + name + " "
          + told(repository.findRef(name.substring(name.lastIndexOf('/') + 1)));
      case 2 -> repository -> "prefix " + prefix + " " + told(repository.getRefDatabase().getRefsByPrefix(prefix));
      case 3 ->
          repository ->
              "prefixes " + prefix + " " + other + " "
                  + new TreeSet<>(told(repository.getRefDatabase().getRefsByPrefix(prefix, other)));
      case 4 ->
          repository ->
              "excluded "
                  + told(
                      repository
                          .getRefDatabase()
                          .getRefsByPrefixWithExclusions("refs/", Set.of(prefix + "x", "refs/heads/a")));
      case 5 ->
          repository ->
              "conflicting " + name + " " + repository.getRefDatabase().isNameConflicting(name) + " "
                  + new TreeSet<>(repository.getRefDatabase().getConflictingNames(name));
      case 6 ->
          repository ->
              "many "
                  + new TreeSet<>(repository.getRefDatabase().exactRef(NAMES[0], name, "refs/none").keySet());
      default ->
          repository ->
              "tips " + id.name() + " "
                  + new TreeSet<>(
                      repository.getRefDatabase().getTipsWithSha1(id).stream()
                          .filter(ref -> !ref.isSymbolic())
                          .map(Ref::getName)
                          .toList());
    };
  }

  static List<String> told(List<Ref> refs) {
    return refs.stream().map(RandomOperations::told).toList();
  }

  static String told(Ref ref) {
    if (ref == null) {
      return "none";
    }
    StringBuilder told = new StringBuilder(ref.getName());
    for (; ref.isSymbolic(); ref = ref.getTarget()) {
      told.append(" -> ").append(ref.getTarget().getName());
    }
    return told.append('=').append(ref.getObjectId() == null ? "unborn" : ref.getObjectId().name()).toString();
  }

  /** Returns all refs with their peeled values, then HEAD and each of {@link #NAMES}. */
  static List<String> state(Repository repository) throws IOException {
    RefDatabase refs = repository.getRefDatabase();
    List<String> state = new ArrayList<>();
    for (Ref ref : refs.getRefs()) {
      Ref peeled = refs.peel(ref);
      state.add(told(ref) + (peeled.getPeeledObjectId() == null ? "" : " ^" + peeled.getPeeledObjectId().name()));
    }
    state.add(told(refs.exactRef("HEAD")));
    for (String name : NAMES) {
      state.add(told(refs.exactRef(name)));
    }
    return state;
  }

  /** Returns the reflogs of those {@link #NAMES} that exist and are not symbolic. */
  static List<String> reflogs(Repository repository) throws IOException {
    List<String> state = new ArrayList<>();
    for (String name : NAMES) {
      Ref ref = repository.exactRef(name);
      if (ref == null || ref.isSymbolic()) {
        continue;
      }
      for (ReflogEntry entry : repository.getRefDatabase().getReflogReader(ref).getReverseEntries()) {
        state.add(
            name + " " + entry.getOldId().name() + " " + entry.getNewId().name() + " " + entry.getWho().getName() + " <"
                + entry.getWho().getEmailAddress() + "> " + entry.getComment());
      }
    }
    return state;
  }
}

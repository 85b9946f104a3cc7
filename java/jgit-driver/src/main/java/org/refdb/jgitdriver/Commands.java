package org.refdb.jgitdriver;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.internal.storage.file.FileReftableDatabase;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.transport.RefSpec;

/**
 * The commands of the driver. Tabs separate the fields of commands and answers where their descriptions have spaces,
 * except for {@code reflog}. An update answers with the name of JGit's result, such as {@code LOCK_FAILURE}.
 */
final class Commands {
  private final Repository repository;
  private final RefDatabase refs;
  private final BufferedReader in;
  private final Consumer<String> answer;

  Commands(Repository repository, BufferedReader in, Consumer<String> answer) {
    this.repository = repository;
    this.refs = repository.getRefDatabase();
    this.in = in;
    this.answer = answer;
  }

  void run(String[] fields) throws Exception {
    switch (fields[0]) {
      case "get" -> get(fields[1]);
      case "list" -> list(fields[1]);
      case "points-at" -> pointsAt(fields[1]);
      case "update" -> update(fields[1], fields[2], fields[3], fields[4]);
      case "delete" -> delete(fields[1]);
      case "link" -> link(fields[1], fields[2]);
      case "batch" -> batch(fields[1].equals("atomic"));
      case "reflog" -> reflog(fields[1]);
      case "pack" -> pack();
      case "compact" -> compact();
      case "push" -> push(fields[1], List.of(fields).subList(2, fields.length));
      default -> throw new IllegalArgumentException("no such command: " + fields[0]);
    }
  }

  /** {@code get NAME}: the ref as {@link #show} prints it, or nothing. */
  private void get(String name) throws IOException {
    Ref ref = refs.exactRef(name);
    if (ref != null) {
      answer.accept(show(ref));
    }
  }

  /** {@code list PREFIX}: every ref whose name begins with the prefix. */
  private void list(String prefix) throws IOException {
    for (Ref ref : refs.getRefsByPrefix(prefix)) {
      answer.accept(show(ref));
    }
  }

  /** {@code points-at ID}: the refs that point to an object or to a tag of it. */
  private void pointsAt(String id) throws IOException {
    for (Ref ref : refs.getTipsWithSha1(ObjectId.fromString(id))) {
      answer.accept(show(ref));
    }
  }

  /** {@code update NAME NEW OLD MESSAGE}: OLD is an id, zeros for "must not exist", or empty for "any". */
  private void update(String name, String newId, String oldId, String message) throws IOException {
    RefUpdate update = refs.newUpdate(name, true);
    update.setForceUpdate(true);
    update.setNewObjectId(ObjectId.fromString(newId));
    if (!oldId.isEmpty()) {
      update.setExpectedOldObjectId(ObjectId.fromString(oldId));
    }
    update.setRefLogIdent(ident());
    update.setRefLogMessage(message, false);
    answer.accept(update.update().name());
  }

  /** {@code delete NAME}: deletes a ref, whatever its value is. */
  private void delete(String name) throws IOException {
    RefUpdate update = refs.newUpdate(name, true);
    update.setForceUpdate(true);
    answer.accept(update.delete().name());
  }

  /** {@code link NAME TARGET}: makes a symbolic ref. */
  private void link(String name, String target) throws IOException {
    RefUpdate update = refs.newUpdate(name, true);
    answer.accept(update.link(target).name());
  }

  /**
   * {@code batch atomic|each}, then lines {@code NAME OLD NEW} up to a line with a dot; an id of zeros stands for no
   * ref. The answer has a line {@code NAME RESULT} for each.
   */
  private void batch(boolean atomic) throws IOException {
    List<ReceiveCommand> commands = new ArrayList<>();
    for (String line; !(line = in.readLine()).equals("."); ) {
      String[] fields = line.split("\t", -1);
      commands.add(
          new ReceiveCommand(ObjectId.fromString(fields[1]), ObjectId.fromString(fields[2]), fields[0]));
    }
    try (RevWalk walk = new RevWalk(repository)) {
      refs.newBatchUpdate()
          .setAllowNonFastForwards(true)
          .setAtomic(atomic)
          .setRefLogIdent(ident())
          .setRefLogMessage("batch", false)
          .addCommand(commands)
          .execute(walk, NullProgressMonitor.INSTANCE);
    }
    for (ReceiveCommand command : commands) {
      answer.accept(command.getRefName() + "\t" + command.getResult());
    }
  }

  /** {@code reflog NAME}: lines as in git's files, {@code OLD NEW IDENT TIME ZONE<tab>MESSAGE}, the newest first. */
  private void reflog(String name) throws IOException {
    var reader = refs.getReflogReader(name);
    for (ReflogEntry entry : reader == null ? List.<ReflogEntry>of() : reader.getReverseEntries()) {
      answer.accept(
          entry.getOldId().name() + " " + entry.getNewId().name() + " " + entry.getWho().toExternalString() + "\t"
              + entry.getComment());
    }
  }

  /** {@code pack}: what JGit's {@code git pack-refs --all} does. */
  private void pack() throws Exception {
    try (Git git = new Git(repository)) {
      git.packRefs().setAll(true).call();
    }
  }

  /** {@code compact}: merges a reftable stack into one table. */
  private void compact() throws IOException {
    ((FileReftableDatabase) refs).compactFully();
  }

  /** {@code push URL SPEC...}: a line {@code REF STATUS MESSAGE} for each ref, and the messages of the server. */
  private void push(String url, List<String> specs) throws Exception {
    try (Git git = new Git(repository)) {
      for (var result : git.push().setRemote(url).setRefSpecs(specs.stream().map(RefSpec::new).toList()).call()) {
        for (var update : result.getRemoteUpdates()) {
          answer.accept(update.getRemoteName() + "\t" + update.getStatus() + "\t" + update.getMessage());
        }
        result.getMessages().lines().forEach(answer);
      }
    }
  }

  private static PersonIdent ident() {
    return new PersonIdent("J Git", "jgit@example.com");
  }

  /**
   * Formats a ref: {@code NAME ID [PEELED]}, or {@code NAME -> TARGET ID} with zeros for an unborn branch. The arrow
   * and the target are one field, with a space between them.
   */
  private static String show(Ref ref) {
    String id = (ref.getObjectId() == null ? ObjectId.zeroId() : ref.getObjectId()).name();
    if (ref.isSymbolic()) {
      return ref.getName() + "\t-> " + ref.getTarget().getName() + "\t" + id;
    }
    return ref.getName() + "\t" + id + (ref.getPeeledObjectId() == null ? "" : "\t" + ref.getPeeledObjectId().name());
  }
}

package org.refdb.bench.refs;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.internal.storage.reftable.ReftableConfig;
import org.eclipse.jgit.internal.storage.reftable.ReftableWriter;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.SymbolicRef;
import org.eclipse.jgit.lib.TreeFormatter;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;

/** Repositories with very many refs, as a Gerrit's are: three refs a change, and a branch. */
final class Laboratory {
  private static final int FIRST_INDEX = 1;

  private Laboratory() {}

  /** The sorted names of {@code refs} refs of changes, rounded down to a multiple of three, and of one branch. */
  static List<String> names(int refs) {
    List<String> names = new ArrayList<>(refs + 1);
    for (int change = 0; change < refs / 3; change++) {
      for (String last : List.of("1", "2", "meta")) {
        names.add(String.format("refs/changes/%02d/%d/%s", change % 100, change, last));
      }
    }
    names.add("refs/heads/master");
    names.sort(Comparator.naturalOrder());
    return names;
  }

  /** The id that the ref of this number holds, whose digits look as random as those of a real one. */
  static ObjectId id(int at) {
    int[] words = new int[Constants.OBJECT_ID_LENGTH / Integer.BYTES];
    for (int word = 0; word < words.length; word++) {
      int mixed = (at + 1) * 0x9e3779b9 + word * 0x85ebca6b;
      mixed = (mixed ^ mixed >>> 15) * 0xc2b2ae35;
      words[word] = mixed ^ mixed >>> 13;
    }
    return ObjectId.fromRaw(words);
  }

  /** Makes a bare repository with these refs, but without their objects, for which reading refs never asks. */
  static File create(Path folder, boolean reftable, List<String> names) throws IOException {
    File gitDir = folder.toFile();
    try (FileRepository repository = new FileRepository(gitDir)) {
      repository.create(true);
      if (reftable) {
        repository.convertRefStorage("reftable", false, false);
      }
    }
    if (reftable) {
      writeTable(folder, names);
    } else {
      writePackedRefs(folder, names);
    }
    return gitDir;
  }

  private static void writePackedRefs(Path folder, List<String> names) throws IOException {
    try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(folder.resolve("packed-refs")), 1 << 20)) {
      out.write("# pack-refs with: peeled fully-peeled sorted \n".getBytes(StandardCharsets.US_ASCII));
      for (int at = 0; at < names.size(); at++) {
        out.write((id(at).name() + ' ' + names.get(at) + '\n').getBytes(StandardCharsets.US_ASCII));
      }
    }
  }

  private static void writeTable(Path folder, List<String> names) throws IOException {
    List<Ref> refs = new ArrayList<>(names.size() + 1);
    Ref master = new ObjectIdRef.Unpeeled(Ref.Storage.NEW, Constants.R_HEADS + Constants.MASTER, null);
    refs.add(new SymbolicRef(Constants.HEAD, master, FIRST_INDEX));
    for (int at = 0; at < names.size(); at++) {
      refs.add(new ObjectIdRef.PeeledNonTag(Ref.Storage.PACKED, names.get(at), id(at), FIRST_INDEX));
    }
    String table = "0x000000000001-0x000000000001-00000001.ref";
    Path tables = folder.resolve(Constants.REFTABLE);
    try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(tables.resolve(table)), 1 << 20)) {
      ReftableWriter writer = new ReftableWriter(new ReftableConfig(), out);
      writer.setMinUpdateIndex(FIRST_INDEX).setMaxUpdateIndex(FIRST_INDEX);
      writer.begin();
      writer.sortAndWriteRefs(refs);
      writer.finish();
    }
    Files.writeString(tables.resolve("tables.list"), table + '\n');
  }

  /** Writes a commit without content or parent, and returns its id. */
  static ObjectId commit(Repository repository) throws IOException {
    try (ObjectInserter inserter = repository.newObjectInserter()) {
      CommitBuilder commit = new CommitBuilder();
      commit.setTreeId(inserter.insert(new TreeFormatter()));
      commit.setAuthor(new PersonIdent("A U Thor", "author@example.com"));
      commit.setCommitter(commit.getAuthor());
      commit.setMessage("A change\n");
      ObjectId id = inserter.insert(commit);
      inserter.flush();
      return id;
    }
  }

  /** Creates refs in one atomic batch, as Gerrit does. */
  static void createRefs(Repository repository, List<String> names, ObjectId id) throws IOException {
    var batch = repository.getRefDatabase().newBatchUpdate();
    batch.setAtomic(true);
    for (String name : names) {
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), id, name));
    }
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    for (ReceiveCommand command : batch.getCommands()) {
      if (command.getResult() != ReceiveCommand.Result.OK) {
        throw new IllegalStateException(command + ": " + command.getMessage());
      }
    }
  }

  /** Removes a folder and all that is in it. */
  static void remove(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
        Files.delete(file);
      }
    }
  }
}

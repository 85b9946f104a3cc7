package org.refdb.it;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.TreeFormatter;
import org.eclipse.jgit.transport.CredentialsProvider;
import org.eclipse.jgit.transport.FetchConnection;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.eclipse.jgit.transport.Transport;
import org.eclipse.jgit.transport.URIish;
import org.eclipse.jgit.transport.UsernamePasswordCredentialsProvider;

/** Someone who writes changes and pushes them over HTTP, with a clone of their own. */
final class Author implements AutoCloseable {
  private static final CredentialsProvider LOGIN = new UsernamePasswordCredentialsProvider("admin", "secret");

  private static final String FOR_REVIEW = "refs/for/master";

  /** Finds the number in the address of a new change, which Gerrit prints. */
  private static final Pattern NUMBER = Pattern.compile("/\\+/(\\d+)");

  private final FileRepository clone;
  private final URIish remote;
  private ObjectId base;

  /** Someone who has just fetched master. */
  Author(Path folder, String url, String project) throws Exception {
    clone = new FileRepository(folder.toFile());
    clone.create(true);
    remote = new URIish(url + "/a/" + project);
    fetchMaster();
  }

  /** A change: its Change-Id, its number once it was pushed, and its commit. */
  record Change(String id, int number, ObjectId commit) {
    /** The ref of its first patch set. */
    String ref() {
      return "refs/changes/%02d/%d/1".formatted(number % 100, number);
    }
  }

  void fetchMaster() throws Exception {
    try (Transport transport = transport()) {
      transport.fetch(NullProgressMonitor.INSTANCE, List.of(new RefSpec("+refs/heads/master:refs/remotes/master")));
    }
    base = clone.exactRef("refs/remotes/master").getObjectId();
  }

  /** A commit on top of what was fetched. */
  Change write(String text) throws IOException {
    return write(clone, text, base);
  }

  /** A commit that no other is like, with a Change-Id of its own. Its parent may be null: then it has none. */
  static Change write(FileRepository clone, String text, ObjectId parent) throws IOException {
    byte[] random = new byte[Constants.OBJECT_ID_LENGTH];
    ThreadLocalRandom.current().nextBytes(random);
    String id = "I" + ObjectId.fromRaw(random).name();
    try (ObjectInserter inserter = clone.newObjectInserter()) {
      TreeFormatter tree = new TreeFormatter();
      tree.append(
          "file-" + id, FileMode.REGULAR_FILE, inserter.insert(Constants.OBJ_BLOB, text.getBytes(StandardCharsets.UTF_8)));
      CommitBuilder commit = new CommitBuilder();
      commit.setTreeId(inserter.insert(tree));
      if (parent != null) {
        commit.setParentId(parent);
      }
      commit.setAuthor(new PersonIdent("Administrator", "admin@example.com"));
      commit.setCommitter(commit.getAuthor());
      commit.setMessage(text + "\n\nChange-Id: " + id + "\n");
      ObjectId commitId = inserter.insert(commit);
      inserter.flush();
      return new Change(id, 0, commitId);
    }
  }

  /** A new change, pushed for review; it must be taken. */
  Change pushChange(String text) throws Exception {
    Change change = write(text);
    RemoteRefUpdate update = new RemoteRefUpdate(clone, change.commit().name(), FOR_REVIEW, true, null, null);
    try (Transport transport = transport()) {
      PushResult result = transport.push(NullProgressMonitor.INSTANCE, List.of(update));
      RemoteRefUpdate.Status status = result.getRemoteUpdate(FOR_REVIEW).getStatus();
      Matcher number = NUMBER.matcher(result.getMessages());
      if (status != RemoteRefUpdate.Status.OK || !number.find()) {
        throw new IOException("the push of " + change + " was answered with " + status + " " + result.getMessages());
      }
      return new Change(change.id(), Integer.parseInt(number.group(1)), change.commit());
    }
  }

  /** Pushes what was fetched as master to a ref, as it is, and says what came of it. */
  RemoteRefUpdate.Status pushMasterTo(String ref) throws Exception {
    RemoteRefUpdate update = new RemoteRefUpdate(clone, base.name(), ref, true, null, null);
    try (Transport transport = transport()) {
      return transport.push(NullProgressMonitor.INSTANCE, List.of(update)).getRemoteUpdate(ref).getStatus();
    }
  }

  /** Returns what the server advertises, each ref as {@code name id}. */
  List<String> advertised() throws Exception {
    try (Transport transport = transport();
        FetchConnection connection = transport.openFetch()) {
      return connection.getRefs().stream().map(ref -> ref.getName() + " " + ref.getObjectId().name()).sorted().toList();
    }
  }

  /** Asks for one branch, as {@code git ls-remote URL master} does. */
  String masterAdvertised() throws Exception {
    try (Transport transport = transport();
        FetchConnection connection = transport.openFetch(List.of(new RefSpec("refs/heads/master")))) {
      return connection.getRef("refs/heads/master").getObjectId().name();
    }
  }

  private Transport transport() throws Exception {
    Transport transport = Transport.open(clone, remote);
    transport.setCredentialsProvider(LOGIN);
    return transport;
  }

  @Override
  public void close() {
    clone.close();
  }
}

package org.refdb.it;

import java.io.IOException;
import java.net.ConnectException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.eclipse.jgit.errors.TransportException;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.eclipse.jgit.transport.Transport;
import org.eclipse.jgit.transport.URIish;
import org.eclipse.jgit.transport.UsernamePasswordCredentialsProvider;
import org.refdb.it.History.Outcome;

/**
 * The clone from which several clients push. A push of {@link Move}s names the old values of the refs, so that the
 * server compares them before it sets the refs.
 */
final class Pusher implements AutoCloseable {
  private static final int TIMEOUT_SECONDS = 60;
  private static final Pattern NUMBER = Pattern.compile("/\\+/(\\d+)");

  /** A change of a ref from a value to another; an empty value means that there is no ref. */
  record Move(String ref, String from, String to) {}

  private final FileRepository clone;
  private final String project;

  Pusher(Path folder, String project) throws IOException {
    this.project = project;
    clone = new FileRepository(folder.toFile());
    clone.create(true);
  }

  /**
   * A commit that no other is like.
   *
   * @param parent empty for none
   */
  String commit(String parent) throws IOException {
    return Author.write(clone, "one of many", parent.isEmpty() ? null : ObjectId.fromString(parent)).commit().name();
  }

  /** What came of each move, and what the server said. */
  record Pushed(List<Outcome> outcomes, String said) {}

  /** Pushes the moves, atomically if there are several. */
  Pushed push(String url, List<Move> moves) throws IOException {
    List<RemoteRefUpdate> updates = new ArrayList<>();
    for (Move move : moves) {
      ObjectId expected = move.from().isEmpty() ? ObjectId.zeroId() : ObjectId.fromString(move.from());
      updates.add(new RemoteRefUpdate(clone, move.to().isEmpty() ? null : move.to(), move.ref(), true, null, expected));
    }
    try (Transport transport = transport(url)) {
      transport.setPushAtomic(moves.size() > 1);
      PushResult result = transport.push(NullProgressMonitor.INSTANCE, updates);
      StringBuilder said = new StringBuilder(result.getMessages());
      List<Outcome> outcomes = new ArrayList<>();
      for (Move move : moves) {
        RemoteRefUpdate update = result.getRemoteUpdate(move.ref());
        said.append(update.getStatus()).append(' ').append(update.getMessage()).append('\n');
        outcomes.add(outcome(update));
      }
      return new Pushed(outcomes, said.toString());
    } catch (TransportException e) {
      Outcome outcome = isRefused(e) ? Outcome.NOTHING : Outcome.UNKNOWN;
      return new Pushed(moves.stream().map(move -> outcome).toList(), e.toString());
    }
  }

  private Transport transport(String url) throws IOException {
    try {
      Transport transport = Transport.open(clone, new URIish(url + "/a/" + project));
      transport.setCredentialsProvider(new UsernamePasswordCredentialsProvider("admin", "secret"));
      transport.setTimeout(TIMEOUT_SECONDS);
      return transport;
    } catch (java.net.URISyntaxException e) {
      throw new IOException(e);
    }
  }

  private static Outcome outcome(RemoteRefUpdate update) {
    return switch (update.getStatus()) {
      case OK -> Outcome.DONE;
      case REJECTED_REMOTE_CHANGED, REJECTED_NONFASTFORWARD, UP_TO_DATE, NON_EXISTING -> Outcome.NOTHING;
      default -> isSureOfNothing(update.getMessage()) ? Outcome.NOTHING : Outcome.UNKNOWN;
    };
  }

  /** Whether the connection was refused, because nobody listens there. */
  private static boolean isRefused(Throwable e) {
    for (Throwable one = e; one != null; one = one.getCause()) {
      if (one instanceof ConnectException) {
        return true;
      }
    }
    return false;
  }

  /** Whether the message is one with which native mode says that nothing has changed. */
  static boolean isSureOfNothing(String message) {
    return message != null && (message.contains("Nothing was changed") || message.contains("has moved it"));
  }

  /**
   * Pushes a commit for review. Returns the number of its change, or 0 if Gerrit does not say that it was taken, or
   * tells of several changes: then the branch has moved, and commits below this one are changes as well.
   */
  int pushForReview(String url, String branch, String commit) throws IOException {
    String target = branch.replace("refs/heads/", "refs/for/");
    RemoteRefUpdate update = new RemoteRefUpdate(clone, commit, target, true, null, null);
    try (Transport transport = transport(url)) {
      PushResult result = transport.push(NullProgressMonitor.INSTANCE, List.of(update));
      Set<Integer> numbers =
          NUMBER.matcher(result.getMessages()).results().map(one -> Integer.valueOf(one.group(1))).collect(Collectors.toSet());
      boolean isTaken = result.getRemoteUpdate(target).getStatus() == RemoteRefUpdate.Status.OK && numbers.size() == 1;
      return isTaken ? numbers.iterator().next() : 0;
    } catch (TransportException e) {
      return 0;
    }
  }

  @Override
  public void close() {
    clone.close();
  }
}

package org.refdb.jgit;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.transport.FetchResult;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.ReceivePack;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.eclipse.jgit.transport.TestProtocol;
import org.eclipse.jgit.transport.TrackingRefUpdate;
import org.eclipse.jgit.transport.Transport;
import org.eclipse.jgit.transport.UploadPack;
import org.refdb.jgit.JgitExpectationsTest.Case;

/**
 * Cases of {@link JgitExpectationsTest} in which a repository fetches from a plain JGit or pushes to one, or the
 * reverse.
 */
final class TransportCases {
  private static final String MASTER = "refs/heads/master";
  private static final String SIDE = "refs/heads/side";

  private TransportCases() {}

  static Map<String, Case> all() {
    Map<String, Case> cases = new LinkedHashMap<>();
    cases.put("a fetch",
        (r, ids) -> withOther(r, other -> fetch(r, other) + JgitExpectationsTest.log(r, "refs/remotes/o/new")));
    cases.put("a fetch prunes", (r, ids) -> withOther(r, other -> prune(r, other, ids)));
    cases.put("a fetch by another", (r, ids) -> withOther(r, other -> fetch(other, r)));
    cases.put("a push", (r, ids) -> withOther(r, other -> push(r, other, false)));
    cases.put("an atomic push", (r, ids) -> withOther(r, other -> push(r, other, true)));
    cases.put("a push by another",
        (r, ids) -> withOther(r, other -> push(other, r, false) + JgitExpectationsTest.log(r, "refs/heads/new")));
    cases.put("an atomic push by another", (r, ids) -> withOther(r, other -> push(other, r, true)));
    return cases;
  }

  private interface Exchange {
    String with(Repository other) throws Exception;
  }

  /** Exchanges refs with another repository, of files and JGit's own, which is one commit ahead. */
  private static String withOther(Repository repository, Exchange exchange) throws Exception {
    Path gitDir = repository.getDirectory().toPath().resolveSibling("other.git");
    Lab.create(gitDir, Lab.Format.FILES);
    List<ObjectId> ids = Lab.objects(gitDir, 4).commits();
    try (Repository other = Lab.openPlain(gitDir)) {
      JgitExpectationsTest.update(other, MASTER, ids.get(0)).update();
      JgitExpectationsTest.update(other, "refs/heads/new", ids.get(3)).update();
      JgitExpectationsTest.update(other, SIDE, ids.get(3)).update();
      return exchange.with(other) + JgitExpectationsTest.refs(repository) + JgitExpectationsTest.refs(other);
    }
  }

  private interface Talk {
    String over(Transport transport) throws Exception;
  }

  private static String talk(Repository client, Repository server, boolean atomic, Talk talk) throws Exception {
    TestProtocol<Object> protocol =
        new TestProtocol<>(
            (request, repository) -> new UploadPack(repository),
            (request, repository) -> {
              ReceivePack receiver = new ReceivePack(repository);
              receiver.setAtomic(atomic);
              receiver.setAllowNonFastForwards(false);
              return receiver;
            });
    try (Transport transport = protocol.open(protocol.register(new Object(), server), client, "other")) {
      return talk.over(transport);
    }
  }

  private static String fetch(Repository client, Repository server) throws Exception {
    return talk(client, server, false, TransportCases::fetch);
  }

  private static String fetch(Transport transport) throws Exception {
    FetchResult result =
        transport.fetch(NullProgressMonitor.INSTANCE, List.of(new RefSpec("+refs/heads/*:refs/remotes/o/*")));
    List<String> updates = new ArrayList<>();
    for (TrackingRefUpdate update : result.getTrackingRefUpdates()) {
      updates.add(update.getLocalName() + " " + update.getResult());
    }
    List<String> advertised = result.getAdvertisedRefs().stream().map(Ref::getName).sorted().toList();
    return updates + " " + advertised;
  }

  private static String prune(Repository client, Repository server, List<ObjectId> ids) throws Exception {
    JgitExpectationsTest.update(client, "refs/remotes/o/gone", ids.get(0)).update();
    return talk(
        client,
        server,
        false,
        transport -> {
          transport.setRemoveDeletedRefs(true);
          return fetch(transport);
        });
  }

  /** Pushes a deletion and, depending on who pushes, new branches, a fast-forward and rewinds, which are refused. */
  private static String push(Repository client, Repository server, boolean atomic) throws Exception {
    return talk(
        client,
        server,
        atomic,
        transport -> {
          transport.setPushAtomic(atomic);
          List<RemoteRefUpdate> updates = new ArrayList<>();
          String[][] pairs = {{SIDE, "refs/heads/new"}, {SIDE, SIDE}, {MASTER, "refs/heads/ahead"}, {null, MASTER}};
          for (String[] of : pairs) {
            updates.add(new RemoteRefUpdate(client, of[0], of[1], true, null, null));
          }
          PushResult result = transport.push(NullProgressMonitor.INSTANCE, updates);
          List<String> statuses = new ArrayList<>();
          for (RemoteRefUpdate update : result.getRemoteUpdates()) {
            statuses.add(update.getRemoteName() + " " + update.getStatus() + " " + update.getMessage());
          }
          return statuses + " ";
        });
  }
}

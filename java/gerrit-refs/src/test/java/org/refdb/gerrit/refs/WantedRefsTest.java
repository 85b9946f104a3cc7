package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.git.DelegateRefDatabase;
import com.google.gerrit.server.git.DelegateRepository;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.errors.TransportException;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.lib.TreeFormatter;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.PacketLineOut;
import org.eclipse.jgit.transport.PreUploadHook;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.transport.UploadPack;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class WantedRefsTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");
  private static final String SECRET = "refs/changes/02/2/1";
  private static final String STARS = "refs/starred-changes/";

  @TempDir Path site;

  private RefdbRepositoryManager manager;
  private Repository repository;

  /** What a fetch listed. */
  private final List<String> listed = new ArrayList<>();

  /** The commit that each ref has had first. */
  private final Map<String, ObjectId> first = new HashMap<>();

  /** How often it was asked whether the user may see a ref. */
  private int asked;

  /** As Gerrit's repository of a fetch: no user sees {@link #SECRET} or stars. */
  private final class Visible extends DelegateRepository {
    Visible(Repository delegate) {
      super(delegate);
    }

    @Override
    public RefDatabase getRefDatabase() {
      return new DelegateRefDatabase(delegate()) {
        @Override
        public Ref exactRef(String name) throws IOException {
          asked++;
          return isHidden(name) ? null : super.exactRef(name);
        }

        @Override
        public List<Ref> getRefs() throws IOException {
          listed.add("all");
          return visible(super.getRefs());
        }

        @Override
        public List<Ref> getRefsByPrefix(String... prefixes) throws IOException {
          listed.addAll(Arrays.asList(prefixes));
          return visible(super.getRefsByPrefix(prefixes));
        }

        private List<Ref> visible(List<Ref> refs) {
          return refs.stream().filter(ref -> !isHidden(ref.getName())).toList();
        }

        private boolean isHidden(String name) {
          return name.equals(SECRET) || name.startsWith(STARS);
        }
      };
    }
  }

  @BeforeEach
  void makeRefs() throws IOException {
    manager = Sites.manager(site, Sites.config());
    repository = manager.createRepository(DEMO);
    for (String name : List.of("refs/heads/main", "refs/changes/01/1/1", SECRET)) {
      first.put(name, commit(name));
      set(name, first.get(name));
    }
  }

  @AfterEach
  void forget() {
    repository.close();
    RepositoryCache.clear();
  }

  private ObjectId commit(String message, ObjectId... parents) throws IOException {
    try (ObjectInserter inserter = repository.newObjectInserter()) {
      CommitBuilder commit = new CommitBuilder();
      commit.setTreeId(inserter.insert(new TreeFormatter()));
      commit.setAuthor(new PersonIdent("A", "a@example.com"));
      commit.setCommitter(commit.getAuthor());
      commit.setParentIds(parents);
      commit.setMessage(message);
      ObjectId id = inserter.insert(commit);
      inserter.flush();
      return id;
    }
  }

  private void set(String name, ObjectId id) throws IOException {
    var update = repository.updateRef(name);
    update.setNewObjectId(id);
    update.forceUpdate();
    assertEquals(id, repository.exactRef(name).getObjectId());
  }

  /** Sends a clone's second request over HTTP, and returns the answer. */
  private String fetch(ObjectId... wants) throws IOException {
    ByteArrayOutputStream request = new ByteArrayOutputStream();
    writeFetch(new PacketLineOut(request), wants);
    return answer(request, false);
  }

  /** Sends a clone's requests over SSH, and returns the answer. */
  private String cloneOverSsh(ObjectId... wants) throws IOException {
    ByteArrayOutputStream requests = new ByteArrayOutputStream();
    PacketLineOut lines = new PacketLineOut(requests);
    lines.writeString("command=ls-refs\n");
    lines.writeDelim();
    lines.writeString("ref-prefix refs/heads/m\n");
    lines.end();
    writeFetch(lines, wants);
    return answer(requests, true);
  }

  /** A round of a fetch that does not end it: what the client has is not known here. */
  private static void writeRound(PacketLineOut lines, ObjectId want) throws IOException {
    lines.writeString("command=fetch\n");
    lines.writeDelim();
    lines.writeString("want " + want.name() + "\n");
    lines.writeString("have 1234567890123456789012345678901234567890\n");
    lines.end();
  }

  private static void writeFetch(PacketLineOut lines, ObjectId... wants) throws IOException {
    lines.writeString("command=fetch\n");
    lines.writeDelim();
    for (ObjectId want : wants) {
      lines.writeString("want " + want.name() + "\n");
    }
    lines.writeString("done\n");
    lines.end();
  }

  private String answer(ByteArrayOutputStream request, boolean overSsh) throws IOException {
    listed.clear();
    UploadPack upload = new UploadPack(new Visible(repository));
    upload.setExtraParameters(List.of("version=2"));
    upload.setBiDirectionalPipe(overSsh);
    new WantedRefs(manager).init(DEMO, upload);
    ByteArrayOutputStream answer = new ByteArrayOutputStream();
    upload.uploadWithExceptionPropagation(new ByteArrayInputStream(request.toByteArray()), answer, null);
    return answer.toString(StandardCharsets.ISO_8859_1);
  }

  private void refuses(ObjectId want) {
    assertThrows(TransportException.class, () -> fetch(want));
    assertThrows(TransportException.class, () -> cloneOverSsh(want));
  }

  @Test
  void tipsAreFoundWithoutAListOfAllRefs() throws IOException {
    assertTrue(fetch(first.get("refs/heads/main"), first.get("refs/changes/01/1/1")).contains("packfile"));
    assertEquals(List.of("refs/heads/", "refs/tags/"), listed);
  }

  @Test
  void tipsAreFoundWithoutAListOfAllRefsOverSsh() throws IOException {
    assertTrue(cloneOverSsh(first.get("refs/heads/main"), first.get("refs/changes/01/1/1")).contains("packfile"));
    assertEquals(List.of("refs/heads/m", "refs/heads/", "refs/tags/"), listed);
  }

  @Test
  void whatWasABranchAMomentAgoIsFoundInItsHistory() throws IOException {
    ObjectId before = first.get("refs/heads/main");
    set("refs/heads/main", commit("next", before));
    assertTrue(fetch(before).contains("packfile"));
    assertFalse(listed.contains("all"));
    assertTrue(cloneOverSsh(before).contains("packfile"));
    assertFalse(listed.contains("all"));
  }

  @Test
  void whatOnlyAnEarlierStateOfAChangeHadIsForJGitToFind() throws IOException {
    ObjectId before = first.get("refs/changes/01/1/1");
    set("refs/changes/01/1/1", commit("next", before));
    assertTrue(fetch(before).contains("packfile"));
    assertTrue(listed.contains("all"));
  }

  @Test
  void whatNoVisibleRefHasIsRefused() throws IOException {
    refuses(first.get(SECRET));
    refuses(commit("nobody's"));
    refuses(ObjectId.fromString("1234567890123456789012345678901234567890"));
    // One that is refused takes the others along.
    assertThrows(TransportException.class, () -> fetch(first.get("refs/heads/main"), first.get(SECRET)));
  }

  @Test
  void whatManyHiddenRefsHoldIsNotAskedOfEach() throws IOException {
    ObjectId star = commit("star");
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    for (int user = 0; user < 3000; user++) {
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), star, STARS + "01/1/" + user));
    }
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    asked = 0;
    assertThrows(TransportException.class, () -> fetch(star));
    assertTrue(asked < 1500, asked + " questions");
    // If many hidden refs and a visible one have the same object, JGit finds the visible one.
    set("refs/changes/03/3/1", star);
    assertTrue(fetch(star).contains("packfile"));
  }

  @Test
  void manyWantsAreLookedUpInOneQuestion() throws IOException {
    CountingEngine counting = new CountingEngine();
    manager = new RefdbRepositoryManager(Sites.disk(site), Optional.of(counting), Settings.of(Sites.config()));
    RepositoryCache.clear();
    List<ObjectId> wants = new ArrayList<>();
    for (int change = 10; change < 30; change++) {
      wants.add(commit("change " + change));
      set("refs/changes/" + change + "/" + change + "/1", wants.get(wants.size() - 1));
    }
    assertTrue(fetch(wants.toArray(ObjectId[]::new)).contains("packfile"));
    assertEquals(1, counting.askedForTips);
  }

  @Test
  void aListAfterARoundOfAFetchOverSshIsWhole() throws IOException {
    ByteArrayOutputStream commands = new ByteArrayOutputStream();
    PacketLineOut lines = new PacketLineOut(commands);
    writeRound(lines, first.get("refs/heads/main"));
    lines.writeString("command=ls-refs\n");
    lines.writeDelim();
    lines.writeString("ref-prefix refs/changes/\n");
    lines.end();
    assertTrue(answer(commands, true).contains("refs/changes/01/1/1"));
  }

  @Test
  void aSecondRoundOverSshListsNoMoreThanTheFirst() throws IOException {
    ByteArrayOutputStream commands = new ByteArrayOutputStream();
    PacketLineOut lines = new PacketLineOut(commands);
    writeRound(lines, first.get("refs/changes/01/1/1"));
    writeFetch(lines, first.get("refs/changes/01/1/1"));
    assertTrue(answer(commands, true).contains("packfile"));
    assertFalse(listed.contains("all"));
  }

  @Test
  void hooksThatTookTheChecksPlaceLeaveAllToJGit() throws IOException {
    UploadPack upload = new UploadPack(new Visible(repository));
    new WantedRefs(manager).init(DEMO, upload);
    upload.setPreUploadHook(PreUploadHook.NULL);
    upload.getAdvertiseRefsHook().advertiseRefs(upload);
    assertEquals(UploadPack.RequestPolicy.ADVERTISED, upload.getRequestPolicy());
  }

  @Test
  void hiddenRefsAndOtherPoliciesAreLeftToJGit() throws IOException {
    repository.getConfig().setString("uploadpack", null, "hiderefs", "refs/changes/");
    repository.getConfig().save();
    assertThrows(TransportException.class, () -> fetch(first.get("refs/changes/01/1/1")));
    assertEquals(List.of("all"), listed);
    assertThrows(TransportException.class, () -> cloneOverSsh(first.get("refs/changes/01/1/1")));
    assertEquals(List.of("refs/heads/m", "all"), listed);
  }
}

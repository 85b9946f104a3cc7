package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestMethodOrder;
import org.refdb.gerrit.global.Folders;

/**
 * One Gerrit's life with refdb, from the installation to the removal. Starting one takes long, so the tests share it.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class GerritRefsTest {
  private static final String PROJECT = "demo";
  /** The path of a git that knows reftables. */
  private static final String GIT = System.getProperty("refdb.test.git");

  private Path scratch;
  private GerritServer server;
  private Rest rest;
  private Author author;
  private Ssh admin;

  /** Changes that Gerrit said it has: none may ever be missing. */
  private final List<Author.Change> acknowledged = new ArrayList<>();

  @BeforeAll
  void start() throws Exception {
    scratch = Files.createTempDirectory("gerrit-refs");
    server = GerritServer.create(scratch.resolve("site"));
    Commands.Output installed = server.installer("install");
    assertEquals(0, installed.status(), installed.text());
    assertTrue(installed.text().contains("Gerrit 3.13.5"), installed.text());
    assertTrue(installed.text().contains("enableInMemoryRefCache = false"), installed.text());
    assertTrue(jgitConfig().contains("smallBatches = auto"), installed.text());
    server.start();
    rest = new Rest(server.url(), "admin", "secret");
    admin = new Ssh(scratch, server, "admin", rest);
  }

  @AfterAll
  void stop() throws IOException {
    if (author != null) {
      author.close();
    }
    server.close();
    Folders.delete(scratch);
  }

  @Test
  @Order(10)
  void aSecondInstallationChangesNothing() throws IOException {
    String before = Files.readString(server.site().resolve("etc/gerrit.config"));
    List<Object> jars = jars();
    Commands.Output again = server.installer("install");
    assertEquals(0, again.status(), again.text());
    assertTrue(again.text().contains("as it is"), again.text());
    assertEquals(before, Files.readString(server.site().resolve("etc/gerrit.config")));
    // Gerrit would load a changed plugin again within a minute, while the tests use its commands.
    assertEquals(jars, jars(), again.text());
  }

  /** Returns the identity and the modification time of each jar. */
  private List<Object> jars() throws IOException {
    List<Object> seen = new ArrayList<>();
    for (String jar : List.of("lib/refdb-gerrit.jar", "plugins/refdb.jar")) {
      BasicFileAttributes file = Files.readAttributes(server.site().resolve(jar), BasicFileAttributes.class);
      seen.addAll(List.of(file.fileKey(), file.lastModifiedTime()));
    }
    return seen;
  }

  @Test
  @Order(20)
  void aProjectIsMadeAndServedByRefdb() throws Exception {
    create(PROJECT);
    author = new Author(scratch.resolve("author"), server.url(), PROJECT);
    JsonObject stat = rest.get("/projects/" + PROJECT + "/refdb~stat").getAsJsonObject();
    assertFalse(stat.has("refusal"), stat.toString());
    assertTrue(stat.getAsJsonObject("engine").get("commits").getAsLong() > 0, stat.toString());
    assertTrue(server.log().contains("serves this site's refs"));
    assertFalse(server.log().contains("Nothing is taken over from H2"), "a fresh site's H2 files are merely empty");
  }

  @Test
  @Order(30)
  void aChangeIsPushedReviewedAndSubmitted() throws Exception {
    Author.Change change = pushed(author, "first");
    String path = path(change);
    JsonObject detail = rest.get(path + "/detail?o=CURRENT_REVISION").getAsJsonObject();
    assertEquals(change.commit().name(), detail.get("current_revision").getAsString());
    rest.good("POST", path + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
    rest.good("POST", path + "/submit", "{}");
    assertEquals("MERGED", rest.get(path).getAsJsonObject().get("status").getAsString());
    author.fetchMaster();
    assertTrue(author.advertised().contains(change.ref() + " " + change.commit().name()), author.advertised().toString());
    assertClean();
  }

  @Test
  @Order(40)
  void branchesAreMadeRenamedAndDeleted() throws Exception {
    String branches = "/projects/" + PROJECT + "/branches/";
    rest.good("PUT", branches + "old", "{\"revision\":\"master\"}");
    // A rename, as Gerrit's users make it: the new name, HEAD to it, the old name away. Then old/er takes old's place.
    rest.good("PUT", branches + "new", "{\"revision\":\"old\"}");
    rest.good("PUT", "/projects/" + PROJECT + "/HEAD", "{\"ref\":\"refs/heads/new\"}");
    rest.good("DELETE", branches + "old", null);
    assertEquals(404, rest.ask("GET", branches + "old", null).status());
    rest.good("PUT", branches + Rest.id("old/er"), "{\"revision\":\"new\"}");
    assertEquals("refs/heads/new", rest.get("/projects/" + PROJECT + "/HEAD").getAsString());
    assertTrue(rest.ask("PUT", branches + "old", "{\"revision\":\"new\"}").status() >= 400, "old/er is in the way");
    rest.good("PUT", "/projects/" + PROJECT + "/HEAD", "{\"ref\":\"refs/heads/master\"}");
    assertClean();
  }

  @Test
  @Order(50)
  void whatGitWritesBesideGerritIsSeenAtOnce() throws Exception {
    String master = git("rev-parse", "refs/heads/master");
    for (int i = 0; i < 20; i++) {
      git("update-ref", "refs/heads/outside", i % 2 == 0 ? master : master + "~1");
      String seen = rest.get("/projects/" + PROJECT + "/branches/outside").getAsJsonObject().get("revision").getAsString();
      assertEquals(git("rev-parse", "refs/heads/outside"), seen, "round " + i);
      if (i % 5 == 4) {
        git("pack-refs", "--all", "--prune");
      }
    }
    git("update-ref", "-d", "refs/heads/outside");
    assertEquals(404, rest.ask("GET", "/projects/" + PROJECT + "/branches/outside", null).status());
    assertClean();
  }

  @Test
  @Order(60)
  void garbageCollectionPacksRefsAndLosesNone() throws Exception {
    pushed(author, "before gc");
    List<String> before = author.advertised();
    String said = rest.good("POST", "/projects/" + PROJECT + "/gc", "{\"show_progress\":false}").body();
    assertTrue(said.contains("completed successfully"), said);
    assertEquals(before, author.advertised());
    assertTrue(Files.readString(repository(PROJECT).resolve("packed-refs")).contains(" refs/changes/"));
    try (Stream<Path> loose = Files.walk(repository(PROJECT).resolve("refs/changes"))) {
      assertEquals(List.of(), loose.filter(Files::isRegularFile).toList(), "loose refs are left");
    }
    assertClean();
  }

  @Test
  @Order(70)
  void aProjectThatIsDeletedAndMadeAgainHasNothingOfTheOldOne() throws Exception {
    create("gone");
    try (Author other = new Author(scratch.resolve("gone-1"), server.url(), "gone")) {
      other.pushChange("in the old one");
    }
    rest.good("PUT", "/projects/gone/branches/old", "{\"revision\":\"master\"}");
    Folders.delete(repository("gone"));
    for (String cache : List.of("projects", "project_list", "persisted_projects")) {
      rest.good("POST", "/config/server/caches/" + cache + "/flush", "{}");
    }
    assertEquals(404, rest.ask("GET", "/projects/gone/branches/master", null).status());
    create("gone");
    assertEquals(404, rest.ask("GET", "/projects/gone/branches/old", null).status());
    try (Author other = new Author(scratch.resolve("gone-2"), server.url(), "gone")) {
      other.pushChange("in the new one");
      assertEquals(2, other.advertised().stream().filter(ref -> ref.startsWith("refs/changes/")).count());
    }
    assertEquals(List.of(), verify("gone"));
  }

  @Test
  @Order(80)
  void refStorageIsConvertedBothWaysWhileGerritRuns() throws Exception {
    create("converted");
    try (Author other = new Author(scratch.resolve("converted"), server.url(), "converted")) {
      other.pushChange("as files");
      for (String format : List.of("reftable", "refdir")) {
        List<String> before = other.advertised();
        convert("converted", format);
        assertEquals(format.equals("reftable"), Files.isRegularFile(repository("converted").resolve("reftable/tables.list")));
        assertEquals(before, other.advertised(), "converted to " + format);
        other.pushChange("as " + format);
        assertEquals(before.size() + 2, other.advertised().size());
        assertEquals(List.of(), verify("converted"));
      }
    }
  }

  @Test
  @Order(90)
  void administratorsAskOverSshAndShadowModeFindsNoDifference() throws Exception {
    assertTrue(ssh("refdb", "stat").contains(PROJECT + " served by refdb"));
    assertTrue(ssh("refdb", "shadow", PROJECT, "--on").contains("in shadow mode"));
    Author.Change change = pushed(author, "in the shadow");
    rest.good("POST", path(change) + "/revisions/current/review", "{\"labels\":{\"Code-Review\":2}}");
    author.advertised();
    ssh("refdb", "shadow", PROJECT, "--off");
    JsonObject stat = rest.get("/projects/" + PROJECT + "/refdb~stat").getAsJsonObject();
    assertTrue(stat.get("compared").getAsLong() > 20, stat.toString());
    assertEquals(0, stat.get("different").getAsLong(), stat + "\n" + lastLines(server.log()));
    assertEquals("clean", ssh("refdb", "verify", PROJECT).strip());
    ssh("refdb", "flush", PROJECT);
    assertTrue(ssh("refdb", "warm", PROJECT).contains(author.advertised().size() + " refs"));
    assertTrue(sshAttempt("refdb", "verify", "no/such/project").status() != 0);
  }

  /** The broken refs are what a power cut, an editor and a careful administrator leave below refs/. */
  @Test
  @Order(95)
  void brokenRefsStopNobodyButGarbageCollection() throws Exception {
    create("broken");
    List<String> broken = List.of("refs/README", "refs/changes/77/77/1", "refs/heads/x.bak");
    try (Author other = new Author(scratch.resolve("broken"), server.url(), "broken")) {
      other.pushChange("before");
      Path repository = repository("broken");
      Files.createDirectories(repository.resolve("refs/changes/77/77"));
      Files.writeString(repository.resolve(broken.get(0)), "Do not touch.\n");
      Files.writeString(repository.resolve(broken.get(1)), "");
      Files.writeString(repository.resolve(broken.get(2)), "what an editor left behind, longer than an object id is\n");
      List<String> before = other.advertised();
      other.pushChange("beside broken refs");
      assertEquals(before.size() + 2, other.advertised().size(), "a push is taken, and refs are listed");
      assertEquals(List.of(), other.advertised().stream().filter(ref -> broken.stream().anyMatch(ref::startsWith)).toList());
      String url = "ssh://admin@localhost:" + server.sshPort() + "/broken";
      admin.git(GIT, "clone", "-q", "--mirror", url, scratch.resolve("broken-clone").toString());
      assertTrue(admin.git(GIT, "ls-remote", url).contains("refs/heads/master"));

      String said = rest.ask("POST", "/projects/broken/gc", "{\"show_progress\":false}").body();
      assertFalse(said.contains("completed successfully"), said);
      JsonObject stat = rest.get("/projects/broken/refdb~stat").getAsJsonObject();
      assertEquals(3, stat.getAsJsonObject("engine").get("broken").getAsLong(), stat.toString());
      String verified = ssh("refdb", "verify", "broken");
      String collected = server.log() + Files.readString(server.site().resolve("logs/gc_log"));
      for (String ref : broken) {
        String file = repository.resolve(ref).toString();
        assertTrue(verified.contains(ref + " is broken: " + file), verified);
        // Gerrit writes each warning of a library to this file twice, with one time stamp.
        List<String> told =
            server.log().lines().filter(line -> line.contains(ref + " is left out of lists")).distinct().toList();
        assertEquals(1, told.size(), told.toString());
        assertTrue(collected.lines().anyMatch(line -> line.contains("nothing is deleted") && line.contains(file)), collected);
      }
      Commands.Output installed = server.installer("install");
      assertTrue(installed.text().contains("3 broken refs"), installed.text());
      assertTrue(installed.text().contains("broken.git: " + broken.get(1) + " is broken"), installed.text());

      // Gerrit asks for the very ref before it takes a push to it.
      assertEquals(RemoteRefUpdate.Status.REJECTED_OTHER_REASON, other.pushMasterTo(broken.get(2)));
      assertNotEquals(0, sshAttempt("refdb", "delete-broken", "broken", "refs/heads/master").status());
      String byRest = "/projects/broken/refdb~delete-broken";
      Rest.Answer whole = rest.ask("POST", byRest, "{\"ref\":\"refs/heads/master\"}");
      assertEquals(409, whole.status(), whole.body());
      assertTrue(whole.body().contains("refs/heads/master is not broken"), whole.body());
      // A failure for which Gerrit has no exception of its own is told as well.
      Path loop = Files.createSymbolicLink(repository.resolve("refs/heads/loop"), Path.of("loop"));
      String why = sshAttempt("refdb", "delete-broken", "broken", "refs/heads/loop").text();
      assertTrue(why.contains("Too many levels of symbolic links"), why);
      Files.delete(loop);
      rest.good("POST", byRest, "{\"ref\":\"" + broken.get(0) + "\"}");
      for (String ref : broken.subList(1, broken.size())) {
        ssh("refdb", "delete-broken", "broken", ref);
      }
      assertEquals(RemoteRefUpdate.Status.OK, other.pushMasterTo(broken.get(2)), "it is written again");
      rest.good("DELETE", "/projects/broken/branches/x.bak", null);
      said = rest.good("POST", "/projects/broken/gc", "{\"show_progress\":false}").body();
      assertTrue(said.contains("completed successfully"), said);
      assertEquals(before.size() + 2, other.advertised().size());
    }
    assertEquals(List.of(), verify("broken"));
  }

  @Test
  @Order(100)
  void whoMayNotMaintainTheServerIsRefused() throws IOException {
    rest.good("PUT", "/accounts/nobody", "{\"http_password\":\"geheim\"}");
    Rest nobody = new Rest(server.url(), "nobody", "geheim");
    assertEquals(200, nobody.ask("GET", "/accounts/self", null).status());
    for (String question : List.of("verify", "flush", "warm")) {
      assertEquals(403, nobody.ask("POST", "/projects/" + PROJECT + "/refdb~" + question, "{}").status(), question);
    }
    assertEquals(403, nobody.ask("POST", "/projects/" + PROJECT + "/refdb~delete-broken", "{\"ref\":\"HEAD\"}").status());
    assertEquals(403, nobody.ask("PUT", "/projects/" + PROJECT + "/refdb~shadow", "{\"on\":true}").status());
    assertEquals(403, nobody.ask("GET", "/projects/" + PROJECT + "/refdb~stat", null).status());
  }

  /** The user {@code nobody}, made above, may look at figures, but not see every project. */
  @Test
  @Order(105)
  void figuresNameNoProjectThatTheCallerMayNotSeeAndNoneThatIsNone() throws Exception {
    create("secret");
    rest.good("POST", "/projects/secret/access", access("refs/*", "read", "BLOCK"));
    rest.good("POST", "/projects/All-Projects/access", access("GLOBAL_CAPABILITIES", "viewCaches", "ALLOW"));
    Rest nobody = new Rest(server.url(), "nobody", "geheim");
    String seen = nobody.get("/config/server/refdb~stat").toString();
    assertTrue(seen.contains('"' + PROJECT + '"') && !seen.contains("secret"), seen);
    Ssh shell = new Ssh(scratch, server, "nobody", nobody);
    String said = shell.run("refdb", "stat");
    assertTrue(said.contains(PROJECT + " served by refdb") && !said.contains("secret"), said);
    assertTrue(shell.attempt("refdb", "stat", "secret").text().contains("there is no project secret"));
    assertTrue(ssh("refdb", "stat", "secret").contains("secret served by refdb"));
    assertTrue(sshAttempt("refdb", "stat", "no/such/project").text().contains("there is no project no/such/project"));
    assertFalse(ssh("refdb", "stat").contains("no/such/project"));
  }

  @Test
  @Order(106)
  void aFetchOverSshGivesWhatTheUserMaySee() throws Exception {
    create("over-ssh");
    Author.Change change;
    try (Author other = new Author(scratch.resolve("over-ssh"), server.url(), "over-ssh")) {
      change = other.pushChange("a private one, fetched by its id");
    }
    rest.good("POST", "/changes/over-ssh~" + change.number() + "/private", "{}");
    rest.good("PUT", "/accounts/reader", "{\"http_password\":\"geheim\"}");
    Ssh reader = new Ssh(scratch, server, "reader", new Rest(server.url(), "reader", "geheim"));
    String address = "@localhost:" + server.sshPort() + "/over-ssh";
    String clone = scratch.resolve("over-ssh-clone").toString();
    reader.git(GIT, "clone", "-q", "ssh://reader" + address, clone);
    String id = change.commit().name();
    AssertionError refused =
        assertThrows(AssertionError.class, () -> reader.git(GIT, "-C", clone, "fetch", "ssh://reader" + address, id));
    assertTrue(refused.getMessage().contains("want " + id + " not valid"), refused.getMessage());
    admin.git(GIT, "-C", clone, "fetch", "-q", "ssh://admin" + address, id);
    assertEquals(id, Commands.run(scratch, GIT, "-C", clone, "rev-parse", "FETCH_HEAD").strip());
  }

  private static String access(String place, String permission, String action) {
    return "{\"add\":{\"%s\":{\"permissions\":{\"%s\":{\"rules\":{\"global:Registered-Users\":{\"action\":\"%s\"}}}}}}}"
        .formatted(place, permission, action);
  }

  @Test
  @Order(107)
  void thePluginsPagesAreServed() throws IOException {
    for (String page : List.of("about", "config", "metrics", "rest-api-config", "cmd-status", "cmd-cache")) {
      String text = new String(rest.download("/plugins/refdb/Documentation/" + page + ".html"), StandardCharsets.UTF_8);
      assertTrue(text.contains("refdb") && !text.contains("@PLUGIN@"), page + ": " + text);
    }
    assertTrue(rest.get("/config/server/metrics/" + Rest.id("plugins/refdb/hits")).toString().contains("\"cumulative\":true"));
  }

  @Test
  @Order(110)
  void aPluginOfAnotherVersionIsRefused() throws IOException {
    Path good = scratch.resolve("good.jar");
    Path wrong = scratch.resolve("wrong.jar");
    Files.copy(server.site().resolve("plugins/refdb.jar"), good);
    Files.copy(good, wrong);
    try (FileSystem zip = FileSystems.newFileSystem(wrong)) {
      Files.writeString(zip.getPath("/org/refdb/gerrit/plugin/plugin.properties"), "version=0.0.1\n");
    }
    Rest.Answer refused = rest.ask("PUT", "/plugins/refdb.jar", "{\"url\":\"" + wrong.toUri() + "\"}");
    rest.good("PUT", "/plugins/refdb.jar", "{\"url\":\"" + good.toUri() + "\"}");
    assertNotEquals(2, refused.status() / 100, refused.body());
    assertTrue(refused.body().contains("the refdb plugin is of version 0.0.1"), refused.body());
    assertClean();
  }

  /**
   * In each format the server is killed while it writes, once, or twice in long runs. Locks that it leaves must keep
   * nobody from writing.
   */
  @Test
  @Order(120)
  void noChangeIsLostWhenTheServerIsKilledUnderLoad() throws Exception {
    for (String format : List.of("refdir", "reftable")) {
      if (format.equals("reftable")) {
        convert(PROJECT, format);
      }
      for (int round = 0; round < (System.getenv("REFDB_TEST_LONG") == null ? 1 : 2); round++) {
        String name = format + "-" + round;
        killUnderLoad(name);
        server.start();
        assertNothingLost();
        assertClean();
        // Whatever a dead writer left behind, the next one gets through.
        pushed(author, "after the crash");
        rest.good("PUT", "/projects/" + PROJECT + "/branches/after-" + name, "{\"revision\":\"master\"}");
        assertNothingLost();
      }
    }
    convert(PROJECT, "refdir");
    assertNothingLost();
  }

  private void killUnderLoad(String round) throws Exception {
    List<Thread> pushers = new ArrayList<>();
    List<Author.Change> pushedNow = new ArrayList<>();
    TreeSet<String> failures = new TreeSet<>();
    for (int i = 0; i < 3; i++) {
      String name = "pusher-" + round + "-" + i;
      pushers.add(Thread.ofPlatform().name(name).start(() -> pushOnAndOn(name, pushedNow, failures)));
    }
    synchronized (pushedNow) {
      while (pushedNow.size() < 15 && failures.isEmpty()) {
        pushedNow.wait(60_000);
      }
      assertEquals(new TreeSet<>(), failures, "before the server was killed");
    }
    server.kill();
    for (Thread pusher : pushers) {
      pusher.join();
    }
    acknowledged.addAll(pushedNow);
  }

  private void pushOnAndOn(String name, List<Author.Change> pushed, TreeSet<String> failures) {
    try (Author pusher = new Author(scratch.resolve(name), server.url(), PROJECT)) {
      while (true) {
        Author.Change change = pusher.pushChange(name);
        synchronized (pushed) {
          pushed.add(change);
          pushed.notifyAll();
        }
      }
    } catch (Exception e) {
      synchronized (pushed) { // each pusher ends here, at the latest when the server is killed
        failures.add(e.toString());
        pushed.notifyAll();
      }
    }
  }

  @Test
  @Order(125)
  void everyMetricThatTheBoardAndTheAlertsNameIsRegistered() throws Exception {
    Set<String> named = Monitoring.named(false);
    assertTrue(named.size() > 20, "only " + named);
    Set<String> registered = rest.get("/config/server/metrics/").getAsJsonObject().keySet();
    assertEquals(List.of(), Monitoring.missing(named, registered));
    assertEquals(List.of("plugins_refdb_none"), Monitoring.missing(List.of("plugins_refdb_none"), registered));
  }

  @Test
  @Order(130)
  void offlineProgramsRunWithTheModule() throws Exception {
    server.stop();
    String said = server.offline("reindex", "--index", "groups");
    assertTrue(said.contains("Reindex") || said.contains("reindex"), said);
  }

  @Test
  @Order(140)
  void twoModulesInTheSamePlaceAreRefusedAtTheStart() throws IOException {
    Path config = server.site().resolve("etc/gerrit.config");
    String good = Files.readString(config);
    Files.writeString(
        config,
        good.replace("[gerrit]\n", "[gerrit]\n\tinstallDbModule = com.google.gerrit.server.git.GitRepositoryManagerModule\n"));
    Commands.Output start = server.tryStart();
    assertNotEquals(0, start.status());
    assertTrue(server.log().contains("Gerrit keeps just one"), start.text());
    Files.writeString(config, good);
  }

  @Test
  @Order(150)
  void withoutItsNativeLibraryGerritRunsOnWithJGit() throws Exception {
    Path data = server.site().resolve("data/refdb");
    if (Files.exists(data)) {
      Folders.delete(data);
    }
    Files.writeString(data, "a file where the folder should be");
    server.start();
    assertNothingLost();
    pushed(author, "without the library");
    long errors = server.log().lines().filter(line -> line.contains("native library cannot be used")).count();
    assertEquals(1, errors);
    assertTrue(ssh("refdb", "stat").contains("NOT IN USE"));
    server.stop();
    Files.delete(data);
  }

  @Test
  @Order(160)
  void uninstallingLeavesEverythingToJGit() throws Exception {
    Commands.Output said = server.installer("uninstall");
    assertEquals(0, said.status(), said.text());
    String config = Files.readString(server.site().resolve("etc/gerrit.config"));
    assertFalse(config.contains("refdb"), config);
    assertFalse(Files.exists(server.site().resolve("lib/refdb-gerrit.jar")));
    assertFalse(jgitConfig().contains("smallBatches"), said.text());
    server.start();
    assertNothingLost();
    pushed(author, "without refdb");
    assertEquals(404, rest.ask("GET", "/config/server/refdb~stat", null).status());
  }

  private String jgitConfig() throws IOException {
    return Files.readString(server.site().resolve("etc/jgit.config"));
  }

  private Author.Change pushed(Author by, String text) throws Exception {
    Author.Change change = by.pushChange(text);
    acknowledged.add(change);
    return change;
  }

  /**
   * Asks for each change by number and by ref, because the search index may lack the last seconds before a crash,
   * with any ref database.
   */
  private void assertNothingLost() throws Exception {
    List<String> lost = new ArrayList<>();
    List<String> refs = author.advertised();
    for (Author.Change change : acknowledged) {
      Rest.Answer answer = rest.ask("GET", "/changes/" + PROJECT + "~" + change.number() + "?o=CURRENT_REVISION", null);
      if (answer.status() != 200
          || !answer.json().getAsJsonObject().get("current_revision").getAsString().equals(change.commit().name())
          || !refs.contains(change.ref() + " " + change.commit().name())) {
        lost.add(change + ": " + answer);
      }
    }
    assertEquals(List.of(), lost);
  }

  private void assertClean() throws IOException {
    assertEquals(List.of(), verify(PROJECT));
    git("fsck", "--connectivity-only");
  }

  private List<String> verify(String project) throws IOException {
    JsonObject found = rest.good("POST", "/projects/" + project + "/refdb~verify", "{}").json().getAsJsonObject();
    List<String> differences = new ArrayList<>();
    for (JsonElement difference : found.getAsJsonArray("differences")) {
      differences.add(difference.getAsString());
    }
    assertEquals(found.get("clean").getAsBoolean(), differences.isEmpty());
    return differences;
  }

  private void create(String project) throws IOException {
    rest.good("PUT", "/projects/" + project, "{\"create_empty_commit\":true,\"branches\":[\"master\"]}");
  }

  private void convert(String project, String format) throws IOException {
    ssh("gerrit", "convert-ref-storage", "--format", format, "--backup", "false", "--reflogs", "true", "--project", project);
  }

  private static String path(Author.Change change) {
    return "/changes/" + PROJECT + "~master~" + change.id();
  }

  private Path repository(String project) {
    return server.site().resolve("git/" + project + ".git");
  }

  private String git(String... arguments) throws IOException {
    List<String> command = new ArrayList<>(List.of(GIT, "--git-dir=" + repository(PROJECT)));
    command.addAll(List.of(arguments));
    return Commands.run(server.site(), command.toArray(String[]::new)).strip();
  }

  private String ssh(String... words) throws IOException {
    Commands.Output said = sshAttempt(words);
    assertEquals(0, said.status(), said.text() + "\n" + troubles(server.log()));
    return said.text();
  }

  private Commands.Output sshAttempt(String... words) throws IOException {
    return admin.attempt(words);
  }

  /** Returns the warnings, the errors and the lines about plugins in a log. */
  private static String troubles(String log) {
    return log.lines().filter(line -> line.matches(".*( WARN | ERROR |plugin).*")).collect(Collectors.joining("\n"));
  }

  private static String lastLines(String log) {
    List<String> lines = log.lines().toList();
    return String.join("\n", lines.subList(Math.max(0, lines.size() - 20), lines.size()));
  }
}

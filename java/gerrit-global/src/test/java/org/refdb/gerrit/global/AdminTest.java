package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.admin.Status;
import org.refdb.gerrit.global.disk.Compare;
import org.refdb.gerrit.global.disk.Compare.Difference;
import org.refdb.gerrit.global.disk.Compare.Kind;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.disk.Repair;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.watch.LaggingRefs;

/** Compare, repair and status, with a real etcd and a repository. */
@SuppressWarnings("try")
final class AdminTest {
  private static final String MAIN = "refs/heads/main";
  private static final String OLD = "refs/heads/old";
  private static final String NEW = "refs/heads/new";

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();
  private final List<Difference> found = new ArrayList<>();
  private GlobalRefs node;
  private DiskProject project;
  private DiskRefs disk;

  @BeforeEach
  void open() throws Exception {
    node = Nodes.open(etcd.url(), Nodes.prefix());
    project = DiskProject.create();
    disk = project.refs();
    project.set(MAIN, project.commit(1));
    project.set(OLD, project.commit(2));
    project.set("refs/changes/01/1/1", project.commit(3));
    project.set("refs/changes/01/1/meta", project.commit(4));
  }

  @AfterEach
  void close() throws Exception {
    disk.close();
    project.close();
    node.close();
  }

  private void importAll() throws Exception {
    new Import(node).run(disk, (put, there) -> {});
  }

  private Compare.Summary compare() throws Exception {
    found.clear();
    return new Compare(node, disk).run(Compare.DIFFERENCES_DEFAULT, found::add);
  }

  private void inEtcd(String ref, ObjectId id) throws GlobalRefException {
    assertTrue(node.compareAndPut(DiskProject.NAME, ref, new Expected.Anything(), id.name(), false));
  }

  private String value(String ref) throws GlobalRefException {
    return node.read(DiskProject.NAME, ref).value().orElse("none");
  }

  private Map<String, Kind> kinds() {
    return found.stream().collect(Collectors.toMap(Difference::ref, Difference::kind));
  }

  private Repair.Summary repair(Repair.To to, boolean isDry, String... names) throws Exception {
    return new Repair(node, disk).run(List.of(names), Compare.DIFFERENCES_DEFAULT, to, isDry, line -> {});
  }

  @Test
  void whatEtcdHasNotSeenYetIsNoDifferenceBeforeTheImport() throws Exception {
    assertThrows(GlobalRefException.class, this::compare);
    inEtcd(MAIN, project.commit(1));
    Compare.Summary summary = compare();
    assertTrue(summary.isClean() && !summary.imported(), summary.toString());
    assertEquals(
        2,
        summary.neverSeen(),
        "old and the change's meta ref; a patch set's ref never changes and is not stored");
    importAll();
    assertEquals(new Compare.Summary(3, 0, 0, true, true), compare());
  }

  @Test
  void eachKindOfDifferenceIsFoundAndEitherSideCanBeRight() throws Exception {
    importAll();
    ObjectId ahead = project.commit(10);
    inEtcd(MAIN, ahead);
    inEtcd(OLD, ObjectId.zeroId());
    inEtcd(NEW, id(77));
    inEtcd("refs/changes/01/1/2", id(78));
    inEtcd("HEAD", id(79));
    node.compareAndPut(DiskProject.NAME, "refs/multi-site/version/value", new Expected.Nothing(), "17", false);
    project.set("refs/heads/by-git", project.commit(11));
    assertEquals(4, compare().different());
    assertEquals(
        Map.of(
            MAIN,
            Kind.OTHER,
            OLD,
            Kind.ONLY_ON_DISK,
            NEW,
            Kind.ONLY_IN_ETCD,
            "refs/heads/by-git",
            Kind.ONLY_ON_DISK),
        kinds());
    String lost = found.stream().filter(one -> one.ref().equals(NEW)).findFirst().orElseThrow().text();
    assertTrue(lost.contains("that object is not here"), lost);

    // A dry run changes nothing. What has no object here cannot be taken from etcd.
    assertEquals(new Repair.Summary(3, 1), repair(Repair.To.ETCD, true));
    assertEquals(4, compare().different());
    assertEquals(new Repair.Summary(3, 1), repair(Repair.To.ETCD, false));
    assertEquals(Optional.of(ahead.name()), disk.value(MAIN));
    assertEquals(Optional.empty(), disk.value(OLD));
    assertEquals(Optional.empty(), disk.value("refs/heads/by-git"));
    compare();
    assertEquals(Map.of(NEW, Kind.ONLY_IN_ETCD), kinds());
    // The administrator sets the ref back.
    assertEquals(new Repair.Summary(1, 0), repair(Repair.To.DISK, false, NEW));
    assertEquals(ObjectId.zeroId().name(), value(NEW));
    assertTrue(compare().isClean());

    project.set(MAIN, project.commit(12));
    project.set("refs/heads/by-git", project.commit(13));
    assertEquals(new Repair.Summary(2, 0), repair(Repair.To.DISK, false));
    assertEquals(project.commit(12).name(), value(MAIN));
    assertEquals(project.commit(13).name(), value("refs/heads/by-git"));
    assertTrue(compare().isClean());
    assertEquals(new Repair.Summary(0, 0), repair(Repair.To.DISK, false, MAIN));
    assertThrows(GlobalRefException.class, () -> repair(Repair.To.DISK, false, "refs/changes/01/1/1"));
  }

  @Test
  void aRefThatIsBeingUpdatedIsNoDifference() throws Exception {
    importAll();
    ObjectId next = project.commit(20);
    CompletableFuture<Compare.Summary> comparing;
    try (AutoCloseable lock = node.lock(DiskProject.NAME, MAIN)) {
      inEtcd(MAIN, next);
      comparing = Nodes.later(this::compare);
      // Etcd has the value and the disk not yet. The comparison, which may not have begun, must wait and not call
      // that a difference.
      Thread.sleep(100);
      assertFalse(comparing.isDone() && comparing.get().different() > 0);
      project.set(MAIN, next);
    }
    assertTrue(comparing.get().isClean(), found.toString());
  }

  @Test
  void moreThanTheLimitEndsTheComparison() throws Exception {
    importAll();
    for (int i = 0; i < 3; i++) {
      inEtcd("refs/heads/x" + i, id(i + 1));
    }
    Compare.Summary summary = new Compare(node, disk).run(2, found::add);
    assertFalse(summary.complete() || summary.isClean());
    assertEquals(2, found.size());
  }

  @Test
  void asManyAsTheLimitLeaveTheComparisonComplete() throws Exception {
    importAll();
    inEtcd("refs/heads/x", id(1));
    Compare.Summary summary = new Compare(node, disk).run(1, found::add);
    assertTrue(summary.complete());
    assertEquals(1, summary.different());
  }

  @Test
  void aProjectThatIsRemovedMeanwhileIsSaidToBe() throws Exception {
    importAll();
    Generation before = new Compare(node, disk).generation();
    node.remove(DiskProject.NAME);
    inEtcd(MAIN, id(1));
    GlobalRefException gone = assertThrows(GlobalRefException.class, () -> new Compare(node, disk).look(MAIN, before));
    assertTrue(gone.getMessage().contains("removed"), gone.getMessage());
  }

  @Test
  void namesAreInEtcdsOrderOnBothSides() throws Exception {
    // In UTF-16 the second one comes first.
    project.set("refs/heads/\uffe5", project.commit(30));
    project.set("refs/heads/\ud83d\ude00", project.commit(31));
    importAll();
    assertEquals(new Compare.Summary(5, 0, 0, true, true), compare());
  }

  @Test
  void aMemberWithoutAQuotaSaysSo() {
    for (long quota : new long[] {-1, 0}) {
      String text = new Status.Member("etcd", null, "3.5", true, true, 1, 0, 5, 4, quota).text();
      assertTrue(text.contains("database 5 bytes of an unlimited quota"), text);
    }
  }

  @Test
  void statusTellsOfMembersQuotaAndWhatIsNotReached() throws Exception {
    Status status = Status.ask(node, new LaggingRefs.Report(2, MAIN, 5000, true), 0);
    Status.Member member = status.members().getFirst();
    assertTrue(status.isGood(), status.text().toString());
    assertTrue(member.leads(), member.text());
    assertTrue(member.bytes() > 0 && member.inUse() <= member.bytes() && member.revision() > 0, member.text());
    assertNotNull(member.quota(), member.text());
    assertTrue(
        status
            .text()
            .get(1)
            .contains("2 refs and more are behind on this disk; " + MAIN + " for 5 s"),
        status.text().toString());
    Settings settings = Nodes.settings("http://localhost:" + EtcdServer.freePort(), "x/");
    try (GlobalRefs lonely = new GlobalRefs(settings, NodeName.of("lonely"))) {
      Status bad = Status.ask(lonely, new LaggingRefs.Report(0, null, 0, false), 0);
      assertFalse(bad.isGood());
      assertTrue(bad.text().get(2).contains("NOT REACHED"), bad.text().toString());
    }
  }
}

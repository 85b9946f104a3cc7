package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;

import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefUpdate.Result;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.refs.GlobalSettled;
import org.refdb.jgit.NotAgreedException;

/** A program beside the server removes its marks from etcd when it ends, because no later process takes them over. */
final class ProgramMarksTest {
  private static final String MAIN = "refs/heads/main";

  @AutoClose private static final EtcdServer etcd = EtcdServer.ofClass();

  private String prefix;

  @BeforeEach
  void choose() {
    prefix = Nodes.prefix();
  }

  private static boolean put(GlobalRefs program) throws GlobalRefException {
    return program.compareAndPut(DiskProject.NAME, MAIN, new Expected.Nothing(), id(1).name(), false);
  }

  /** Returns the marks, and the names, of all programs in etcd. */
  private String keys() throws Exception {
    return etcd.ctl("get", "--prefix", "--keys-only", prefix + "m/program-").strip()
        + etcd.ctl("get", "--prefix", "--keys-only", prefix + "n/program-").strip();
  }

  /** Previously, the marks of such programs stayed in etcd for ever. */
  @Test
  void theyAreGoneAfterItIsClosed() throws Exception {
    NodeName name = NodeName.ofProgram();
    try (GlobalRefs program = new GlobalRefs(Nodes.settings(etcd.url(), prefix), name)) {
      assertTrue(put(program));
      assertTrue(keys().contains("n/" + name.name()), keys());
    }
    assertEquals("", keys());
  }

  @Test
  void theyAreGoneAlthoughTheAnswerThatTheyAreThereGotLost() throws Exception {
    try (Proxy proxy = new Proxy(etcd.port())) {
      try (GlobalRefs program = new GlobalRefs(Nodes.patient(List.of(proxy.url()), prefix), NodeName.ofProgram())) {
        proxy.modeFrom(" process ", Proxy.Mode.NO_ANSWERS); // the claim says which process this is
        assertThrows(GlobalRefException.class, () -> put(program));
        assertNotEquals("", keys());
        proxy.mode(Proxy.Mode.OPEN);
        proxy.hangUp();
      }
      assertEquals("", keys());
    }
  }

  /** Previously, such a claim put the marks back, for ever. */
  @Test
  void aClaimThatArrivesAfterTheyAreRemovedBringsNoneBack() throws Exception {
    try (Proxy proxy = new Proxy(etcd.port())) {
      try (GlobalRefs program = new GlobalRefs(Nodes.hasty(List.of(proxy.url()), prefix), NodeName.ofProgram())) {
        proxy.modeFrom(" process ", Proxy.Mode.HELD); // the claim says which process this is
        assertThrows(GlobalRefException.class, () -> put(program));
        proxy.hangUp();
        proxy.mode(Proxy.Mode.OPEN);
      }
      assertTrue(proxy.heldBytes() > 0);
      proxy.deliverHeld();
      for (int i = 0; i < 20; i++) {
        Thread.sleep(50);
        assertEquals("", keys());
      }
    }
  }

  /** Previously, the marks of a program that was killed stayed in etcd for ever. */
  @Test
  void theyEndWithTheirLease() throws Exception {
    try (GlobalRefs program = new GlobalRefs(Nodes.settings(etcd.url(), prefix), NodeName.ofProgram())) {
      assertTrue(put(program));
      assertFalse(put(program)); // puts the mark again
      revokeLeases();
      assertEquals("", keys());
      GlobalRefException refused = assertThrows(GlobalRefException.class, () -> put(program));
      assertTrue(refused.getMessage().contains("does not have the mark"), refused.getMessage());
      assertEquals("", keys());
    }
  }

  @Test
  void aMarkThatAnotherNodeClosesKeepsItsLease() throws Exception {
    try (DiskProject disk = DiskProject.create();
        Proxy proxy = new Proxy(etcd.port());
        NativeNode node = new NativeNode(disk.folder(), Nodes.open(etcd.url(), prefix))) {
      ObjectId first = disk.commit(1);
      Settings settings = Nodes.hasty(List.of(proxy.url()), prefix);
      NativeNode program = new NativeNode(disk.folder(), new GlobalRefs(settings, NodeName.ofProgram()));
      try (program) {
        assertEquals(Result.NEW, program.set(MAIN, first));
        proxy.mode(Proxy.Mode.CUT);
        ObjectId second = disk.commit(2);
        assertThrows(NotAgreedException.class, () -> program.set(MAIN, second));
        assertEquals(new GlobalSettled(1, 0, 0), node.settle(false, new ArrayList<>()));
      }
      revokeLeases();
      assertEquals("", keys());
    }
  }

  /** Does what time does to the leases of a program that was killed. */
  private static void revokeLeases() throws Exception {
    for (String lease : etcd.ctl("lease", "list").lines().skip(1).toList()) {
      etcd.ctl("lease", "revoke", lease.strip());
    }
  }

  @Test
  void theyAreGoneAfterItIsTerminated() throws Exception {
    try (DiskProject disk = DiskProject.create()) {
      Process program =
          NativeChild.start(
              ProgramChild.class, etcd.url(), prefix, disk.folder().resolve("site").toString(),
              disk.folder().toString(), MAIN, disk.commit(1).name(), "false");
      try (BufferedReader said = program.inputReader()) {
        assertTrue(said.lines().anyMatch("NEW"::equals));
        assertNotEquals("", keys());
        program.destroy();
        assertEquals(143, program.waitFor()); // SIGTERM
      } finally {
        program.destroyForcibly().waitFor();
      }
      assertEquals("", keys());
    }
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;

import java.nio.file.Path;
import java.util.Optional;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.global.admin.Status;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.watch.LaggingRefs;

/** TLS with certificates on both sides, and a user with a password, with a real etcd, through the settings. */
final class TlsTest {
  private static final String REF = "refs/heads/main";

  @TempDir Path folder;

  private GlobalRefs node(String url, String ca, String cert, String user, String password, String prefix) {
    Config config = new Config();
    config.setString("refdb", "global", "etcd", url);
    config.setString("refdb", "global", "caFile", ca);
    if (cert != null) {
      config.setString("refdb", "global", "certFile", cert + ".pem");
      config.setString("refdb", "global", "keyFile", cert + ".key");
    }
    if (user != null) {
      config.setString("refdb", "global", "user", user);
      config.setString("refdb", "global", "password", password);
    }
    config.setString("refdb", "global", "prefix", prefix);
    // Nodes that the certificates keep out need not wait, and the others have plenty of time.
    boolean isRefused = !ca.equals("ca.pem") || !"client".equals(cert);
    config.setString("refdb", "global", "requestTimeout", isRefused ? "500ms" : "10s");
    config.setString("refdb", "global", "timeout", isRefused ? "500ms" : "20s");
    return new GlobalRefs(Settings.of(config, folder), NodeName.of("node"));
  }

  private static boolean put(GlobalRefs node, int number) throws GlobalRefException {
    return node.compareAndPut("project", REF, new Expected.Anything(), id(number).name(), false);
  }

  @Test
  void bothSidesProveWhoTheyAreAndAUserReachesItsPrefixOnly() throws Exception {
    Certificates certificates = Certificates.make(folder);
    try (EtcdServer etcd = EtcdServer.startWithTls(certificates)) {
      try (GlobalRefs node = node(etcd.url(), "ca.pem", "client", null, null, "open/")) {
        assertTrue(put(node, 1));
        Status status = Status.ask(node, new LaggingRefs.Report(0, null, 0, false), 0);
        assertTrue(status.isGood(), status.text().toString());
        assertNotNull(status.members().getFirst().quota());
      }
      for (String cert : new String[] {null, "stranger"}) {
        try (GlobalRefs node = node(etcd.url(), "ca.pem", cert, null, null, "open/")) {
          assertThrows(GlobalRefException.class, () -> put(node, 2), String.valueOf(cert));
        }
      }
      try (GlobalRefs node = node(etcd.url(), "other-ca.pem", "client", null, null, "open/")) {
        assertThrows(GlobalRefException.class, () -> put(node, 2), "the server is not who it should be");
      }
      assertFalse(etcd.ctl("get", "--prefix", "open/v/").contains(id(2).name()));

      for (String line :
          new String[] {
            "user add root:rootpw",
            "role add root",
            "user grant-role root root",
            "user add refdb:secret",
            "role add refdb",
            "role grant-permission refdb --prefix=true readwrite mine/",
            "user grant-role refdb refdb",
            "auth enable"
          }) {
        etcd.ctl(line.split(" "));
      }
      try (GlobalRefs node = node(etcd.url(), "ca.pem", "client", "refdb", "secret", "mine/")) {
        assertTrue(put(node, 3));
        node.lock("project", REF).close();
        // etcd forgets its tokens with a restart.
        etcd.kill();
        etcd.run();
        for (int i = 0; ; i++) {
          try {
            assertTrue(put(node, 4));
            break;
          } catch (GlobalRefException e) {
            assertTrue(i < 20, e.getMessage());
          }
        }
        assertEquals(Optional.of(id(4).name()), node.read("project", REF).value());
        Status status = Status.ask(node, new LaggingRefs.Report(0, null, 0, false), 0);
        assertTrue(status.isGood(), status.text().toString());
      }
      try (GlobalRefs node = node(etcd.url(), "ca.pem", "client", "refdb", "wrong", "mine/")) {
        GlobalRefException denied = assertThrows(GlobalRefException.class, () -> put(node, 5));
        assertTrue(denied.getMessage().contains("password of secure.config"), denied.getMessage());
      }
      try (GlobalRefs node = node(etcd.url(), "ca.pem", "client", "refdb", "secret", "others/")) {
        GlobalRefException denied = assertThrows(GlobalRefException.class, () -> put(node, 5));
        assertTrue(denied.getMessage().contains("keys that begin with others/"), denied.getMessage());
      }
    }
  }
}

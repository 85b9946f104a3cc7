package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** Nodes as tests want them: with short times, and a name that no other has. */
final class Nodes {
  private static final AtomicInteger COUNT = new AtomicInteger();

  private Nodes() {}

  /** Patient, but for locks: nothing here has to take long. */
  static Settings settings(String url, String prefix) {
    return settings(List.of(url), prefix, 20_000, 40_000, 20);
  }

  /** With an etcd that takes this many operations at once. */
  static Settings largeBatches(String url, String prefix, int txnOps) {
    return settings(List.of(url), prefix, 20_000, 40_000, 20, txnOps);
  }

  private static Settings settings(List<String> urls, String prefix, long requestMillis, long millis, long lease) {
    return settings(urls, prefix, requestMillis, millis, lease, 128);
  }

  private static Settings settings(
      List<String> urls, String prefix, long requestMillis, long millis, long lease, int txnOps) {
    Duration request = Duration.ofMillis(requestMillis);
    Duration whole = Duration.ofMillis(millis);
    Duration lock = Duration.ofMillis(3000);
    return new Settings(
        urls,
        null,
        null,
        null,
        null,
        null,
        prefix,
        request,
        whole,
        lock,
        Duration.ofSeconds(lease),
        whole,
        txnOps,
        3 << 19,
        8);
  }

  static GlobalRefs open(String url, String prefix) {
    return new GlobalRefs(settings(url, prefix), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** One that soon takes an answer for lost. */
  static GlobalRefs openHasty(String url, String prefix) {
    return openHasty(List.of(url), prefix);
  }

  /** A hasty one that knows all members of a cluster. */
  static GlobalRefs openHasty(List<String> urls, String prefix) {
    return new GlobalRefs(hasty(urls, prefix), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** One that asks under locks for a moment only. */
  static GlobalRefs openHastyNative(String url, String prefix) {
    return new GlobalRefs(settings(List.of(url), prefix, 300, 900, 2), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** A hasty one that changes two refs in one transaction. */
  static GlobalRefs openSmallNative(String url, String prefix) {
    return new GlobalRefs(
        settings(List.of(url), prefix, 300, 900, 2, 6),
        NodeName.of("node" + COUNT.incrementAndGet()));
  }

  static Settings hasty(List<String> urls, String prefix) {
    return settings(urls, prefix, 700, 4000, 2);
  }

  /** Waits a minute until this is so. */
  static void await(Callable<Boolean> what) throws Exception {
    for (int i = 0; i < 6000 && !what.call(); i++) {
      Thread.sleep(10);
    }
    assertTrue(what.call());
  }

  static String prefix() {
    return "test" + COUNT.incrementAndGet() + "/";
  }

  static Project.NameKey project(String name) {
    return Project.nameKey(name);
  }

  static ObjectId id(int number) {
    return ObjectId.fromString(String.format("%040x", number));
  }

  static Ref ref(String name, int number) {
    return new ObjectIdRef.Unpeeled(Ref.Storage.NETWORK, name, id(number));
  }

  /** As Gerrit's wrapper says that a ref is not there. */
  static Ref none(String name) {
    return new ObjectIdRef.Unpeeled(Ref.Storage.NEW, name, ObjectId.zeroId());
  }
}

package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.entities.Project;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectIdRef;
import org.eclipse.jgit.lib.Ref;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** Nodes as tests want them, each with a name that no other has, and their settings. */
final class Nodes {
  private static final AtomicInteger COUNT = new AtomicInteger();

  private Nodes() {}

  /** Settings with long times for requests, and a short one to wait for a lock. */
  static Settings settings(String url, String prefix) {
    return settings(List.of(url), prefix, 20_000, 40_000, 20);
  }

  /** Settings for an etcd that takes {@code txnOps} operations in a transaction. */
  static Settings largeBatches(String url, String prefix, int txnOps) {
    return settings(List.of(url), prefix, 20_000, 40_000, 20, txnOps, 8);
  }

  /** Settings for a node that has a single slot. */
  static Settings oneSlot(String url, String prefix) {
    return settings(List.of(url), prefix, 20_000, 40_000, 20, 128, 1);
  }

  private static Settings settings(List<String> urls, String prefix, long requestMillis, long millis, long lease) {
    return settings(urls, prefix, requestMillis, millis, lease, 128, 8);
  }

  private static Settings settings(
      List<String> urls, String prefix, long requestMillis, long millis, long lease, int txnOps, int slots) {
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
        slots);
  }

  static GlobalRefs open(String url, String prefix) {
    return new GlobalRefs(settings(url, prefix), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** Opens a node that soon takes an answer for lost. */
  static GlobalRefs openHasty(String url, String prefix) {
    return openHasty(List.of(url), prefix);
  }

  /** Opens a node that soon takes an answer for lost, and whose lease survives the pauses of a busy machine. */
  static GlobalRefs openHastyOfLongLease(String url, String prefix) {
    return new GlobalRefs(settings(List.of(url), prefix, 700, 4000, 30), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** Opens such a hasty node that knows all members of a cluster. */
  static GlobalRefs openHasty(List<String> urls, String prefix) {
    return new GlobalRefs(hasty(urls, prefix), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** Opens a node that waits for etcd only for a moment while it holds locks. */
  static GlobalRefs openHastyNative(String url, String prefix) {
    return new GlobalRefs(settings(List.of(url), prefix, 300, 900, 2), NodeName.of("node" + COUNT.incrementAndGet()));
  }

  /** Opens a hasty node that changes at most two refs in one transaction of etcd. */
  static GlobalRefs openSmallNative(String url, String prefix) {
    return new GlobalRefs(
        settings(List.of(url), prefix, 300, 900, 2, 6, 8),
        NodeName.of("node" + COUNT.incrementAndGet()));
  }

  static Settings hasty(List<String> urls, String prefix) {
    return settings(urls, prefix, 700, 4000, 2);
  }

  /** Returns settings with which an answer is taken for lost only after a time in which a busy machine can answer. */
  static Settings patient(List<String> urls, String prefix) {
    return settings(urls, prefix, 5000, 6000, 2);
  }

  /** Waits until {@code what} returns true, and fails after five minutes, which the slowest machine does not need. */
  static void await(Callable<Boolean> what) throws Exception {
    long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(5);
    while (!what.call()) {
      assertTrue(System.nanoTime() < end, "what this test waits for has not come true in five minutes");
      Thread.sleep(10);
    }
  }

  /** Starts an action in another thread. */
  static <T> CompletableFuture<T> later(Callable<T> action) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return action.call();
          } catch (Exception e) {
            throw new IllegalStateException(e);
          }
        });
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

  /** Returns the form in which Gerrit's wrapper says that a ref does not exist. */
  static Ref none(String name) {
    return new ObjectIdRef.Unpeeled(Ref.Storage.NEW, name, ObjectId.zeroId());
  }
}

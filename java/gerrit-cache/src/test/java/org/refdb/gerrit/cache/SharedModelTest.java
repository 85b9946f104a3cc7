package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.cache.shared.Counts.Event;

/**
 * Two nodes and a model of what each could compute: projects get commits, are deleted and created again; keys are
 * invalidated, caches flushed; settings change on one node after the other, and so does the version. Each value that a
 * node serves must be one that it could have computed at that moment or, within five seconds of a flush on the other
 * node, before that flush.
 */
class SharedModelTest extends WithRedis {
  private static final int PROJECTS = 4;
  private static final int STEPS = 6_000;
  private static final long FLUSH_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Random random = new Random(7);

  /** The ids of the commits of each project. An id stands for one content, as in git. */
  private final List<List<String>> projects = new ArrayList<>();

  /** How often the configuration of the repositories has changed, on which values depend. */
  private volatile int configuration;

  /** A node, and what its values depend on beside their keys and the repositories. */
  private final class Node implements AutoCloseable {
    int version = 1;
    int renameLimit = 400;

    /**
     * The configuration of the repositories that this node knows at least, and the time from which it must know the
     * present one.
     */
    int known = configuration;
    long deadlineNanos = System.nanoTime();
    private long hitsBefore;
    private SharedNode shared = open();

    private SharedNode open() {
      Config config = SharedNode.config(redis.address());
      config.setInt("diff", null, "renameLimit", renameLimit);
      config.setInt("cache", "fleet", "memoryLimit", 0); // so that each get asks the server
      TestDef def = TestDef.named("fleet").withDiskLimit(-1).withVersion(version);
      int runs = version;
      int limit = renameLimit;
      return new SharedNode(site, config, def, key -> value(key, runs, limit, configuration)).awaitInUse();
    }

    void restart() {
      hitsBefore = hits();
      shared.close();
      shared = open();
      // It reads the generations before it serves anything.
      known = configuration;
    }

    void get(String key) throws Exception {
      boolean mustKnow = System.nanoTime() - deadlineNanos >= 0;
      int from = mustKnow ? configuration : known;
      String found = shared.cache.get(key);
      for (int each = from; each <= configuration; each++) {
        if (found.equals(value(key, version, renameLimit, each))) {
          return;
        }
      }
      assertEquals(value(key, version, renameLimit, configuration), found, "known since " + from);
    }

    long hits() {
      return hitsBefore + shared.count(Event.HITS);
    }

    @Override
    public void close() {
      shared.close();
    }
  }

  private static String value(String key, int version, int renameLimit, int configuration) {
    return key + " by version " + version + ", limit " + renameLimit + ", configuration " + configuration;
  }

  @BeforeEach
  void start() {
    for (int i = 0; i < PROJECTS; i++) {
      projects.add(new ArrayList<>(List.of("first of " + i)));
    }
  }

  @Test
  void noNodeServesWhatItCouldNotCompute() throws Exception {
    try (Node first = new Node();
        Node second = new Node()) {
      for (int step = 0; step < STEPS; step++) {
        boolean isRestart = step % 500 == 250;
        Node node = (isRestart ? step / 500 % 2 == 0 : random.nextBoolean()) ? first : second;
        step(node, node == first ? second : first, step);
      }
      assertTrue(first.hits() + second.hits() > STEPS / 20, first.hits() + " and " + second.hits() + " hits");
    }
  }

  private void step(Node node, Node other, int step) throws Exception {
    int project = random.nextInt(PROJECTS);
    List<String> commits = projects.get(project);
    String key = "project " + project + ": " + commits.get(random.nextInt(commits.size()));
    if (step % 1_500 == 700) { // as an administrator does after a change of a repository's configuration
      configuration++;
      node.shared.shared().flush(null);
      node.known = configuration;
      node.deadlineNanos = System.nanoTime();
      other.deadlineNanos = System.nanoTime() + FLUSH_NANOS;
    } else if (step % 1_500 == 1_100) {
      TimeUnit.NANOSECONDS.sleep(other.deadlineNanos - System.nanoTime());
    } else if (step % 500 == 250) { // one node after the other, so that they differ for a while
      if (step / 500 % 4 < 2) {
        node.version++;
      } else {
        node.renameLimit += 100;
      }
      node.restart();
    } else if (random.nextInt(40) == 0) {
      node.shared.cache.invalidate(key);
    } else if (random.nextInt(200) == 0) {
      node.shared.cache.invalidateAll();
    } else if (random.nextInt(10) == 0) {
      commits.add("commit " + step);
    } else if (random.nextInt(100) == 0) { // deleted, and created again with the same first commit
      commits.subList(1, commits.size()).clear();
    } else {
      node.get(key);
    }
  }
}

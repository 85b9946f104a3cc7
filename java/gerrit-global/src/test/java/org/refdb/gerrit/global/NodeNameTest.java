package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.global.etcd.NodeName;

/** The name of a node, which it keeps. */
final class NodeNameTest {
  private static final int STARTS = 4;

  @TempDir Path site;

  /** Previously, the name that the last of them generated replaced those that the others had taken. */
  @Test
  void startsAtTheSameTimeTakeOneName() throws Exception {
    try (ExecutorService threads = Executors.newFixedThreadPool(STARTS)) {
      for (int i = 0; i < 100; i++) {
        Path folder = site.resolve("" + i);
        CyclicBarrier ready = new CyclicBarrier(STARTS);
        Set<String> names = ConcurrentHashMap.newKeySet();
        Callable<Boolean> start =
            () -> {
              ready.await();
              return names.add(NodeName.in(folder).name());
            };
        for (Future<Boolean> started : threads.invokeAll(Collections.nCopies(STARTS, start))) {
          started.get();
        }
        assertEquals(Set.of(Files.readString(folder.resolve("node")).strip()), names);
        try (Stream<Path> files = Files.list(folder)) {
          assertEquals(List.of(folder.resolve("node")), files.toList());
        }
      }
    }
  }
}

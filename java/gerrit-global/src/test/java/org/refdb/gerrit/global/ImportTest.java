package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.refdb.gerrit.global.Nodes.id;

import java.util.Iterator;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.global.GlobalRefs.Expected;

/** An import that is stopped goes on, and takes nothing back. */
final class ImportTest {
  private static final int REFS = 2_550;

  private static Iterator<Import.Entry> refs(int until) {
    return IntStream.range(0, until).mapToObj(i -> new Import.Entry("refs/heads/" + i, id(i + 1).name())).iterator();
  }

  @Test
  void whatIsThereStaysAndTheRestIsTakenUp() throws Exception {
    try (EtcdServer etcd = EtcdServer.start();
        GlobalRefs node = Nodes.open(etcd.url(), Nodes.prefix())) {
      Import work = new Import(node);
      Iterator<Import.Entry> half = refs(REFS / 2);
      Iterator<Import.Entry> stopped =
          new Iterator<>() {
            @Override
            public boolean hasNext() {
              return true;
            }

            @Override
            public Import.Entry next() {
              if (!half.hasNext()) {
                throw new IllegalStateException("the process ends here");
              }
              return half.next();
            }
          };
      assertThrows(IllegalStateException.class, () -> work.run("project", stopped, done -> {}));
      assertFalse(node.read("project", "refs/heads/1").imported());
      // An update between the two parts.
      assertTrue(node.compareAndPut("project", "refs/heads/7", new Expected.Is(id(8).name()), id(99).name(), false));
      AtomicLong last = new AtomicLong();
      work.run("project", refs(REFS), last::set);
      assertEquals(REFS, last.get());
      assertTrue(node.read("project", "refs/heads/1").imported());
      assertEquals(Optional.of(id(99).name()), node.read("project", "refs/heads/7").value());
      assertEquals(Optional.of(id(REFS).name()), node.read("project", "refs/heads/" + (REFS - 1)).value());
      assertFalse(node.compareAndPut("project", "refs/heads/new", new Expected.Is(id(1).name()), id(2).name(), false));
    }
  }
}

package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.refdb.engine.ClosedHandleException;

/**
 * Wrong use, broken files and too little memory give an exception that says what is wrong and where, and the JVM
 * survives.
 */
class MisuseAndDamageTest {
  private static final String MASTER = "refs/heads/master";

  @TempDir Path folder;
  private Path gitDir;
  private Lab.Objects objects;

  private RefdbRepository open(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), format);
    objects = Lab.objects(gitDir, 3);
    return Lab.open(gitDir);
  }

  @ParameterizedTest
  @EnumSource
  void closingUnderManyReadersIsAnExceptionAndNothingElse(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      RefdbDatabaseTest.set(repository, MASTER, objects.commits().get(0));
      for (int round = 0; round < 20; round++) {
        RefdbDatabase refs = RefdbDatabase.open(Lab.views(), repository);
        CountDownLatch reading = new CountDownLatch(4);
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<?>> readers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
          readers.add(threads.submit(() -> readUntilClosed(refs, reading)));
        }
        reading.await();
        refs.close();
        for (Future<?> reader : readers) {
          reader.get();
        }
        threads.shutdown();
        assertThrows(ClosedHandleException.class, () -> refs.exactRef(MASTER));
        assertThrows(ClosedHandleException.class, () -> refs.newUpdate(MASTER, false));
        refs.close();
      }
    }
  }

  private Void readUntilClosed(RefDatabase refs, CountDownLatch reading) throws IOException {
    for (int i = 0; ; i++) {
      try {
        assertEquals(objects.commits().get(0), refs.exactRef(MASTER).getObjectId());
        assertEquals(2, refs.getRefs().size());
      } catch (ClosedHandleException e) {
        return null;
      }
      if (i == 0) {
        reading.countDown();
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void aRefNameOf300BytesIsKeptOrRefusedByName(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      String name = "refs/heads/" + "n".repeat(289);
      if (format == Lab.Format.REFTABLE) {
        assertNull(repository.exactRef(name));
        RefdbDatabaseTest.set(repository, name, objects.commits().get(0));
        assertEquals(objects.commits().get(0), repository.exactRef(name).getObjectId());
        return;
      }
      // The file system does not accept the name.
      IOException read = assertThrows(IOException.class, () -> repository.exactRef(name));
      assertTrue(read.getMessage().contains(name), read.getMessage());
      IOException written =
          assertThrows(IOException.class, () -> RefdbDatabaseTest.set(repository, name, objects.commits().get(0)));
      assertTrue(written.getMessage().contains(name), written.getMessage());
    }
  }

  @ParameterizedTest
  @EnumSource
  void namesInOtherScriptsAreKept(Lab.Format format) throws Exception {
    try (RefdbRepository repository = open(format)) {
      String name = "refs/heads/ветка-é-\uD83D\uDE00";
      RefdbDatabaseTest.set(repository, name, objects.commits().get(0));
      assertEquals(objects.commits().get(0), repository.exactRef(name).getObjectId());
      assertEquals(name, repository.getRefDatabase().getRefsByPrefix("refs/heads/").get(0).getName());
      assertEquals(name, repository.getRefDatabase().getRefsByPrefix("refs/heads/вет").get(0).getName());
    }
  }

  @Test
  void aBrokenLooseRefIsNamed() throws Exception {
    try (RefdbRepository repository = open(Lab.Format.FILES)) {
      Lab.write(gitDir.resolve("refs/heads/broken"), "no object id at all\n");
      IOException error = assertThrows(IOException.class, () -> repository.exactRef("refs/heads/broken"));
      assertTrue(error.getMessage().contains("refs/heads/broken"), error.getMessage());
    }
  }

  @Test
  void aBrokenPackedRefsIsNamedWithItsLine() throws Exception {
    try (RefdbRepository repository = open(Lab.Format.FILES)) {
      Lab.write(gitDir.resolve("packed-refs"), "# pack-refs with: peeled fully-peeled sorted \nrubbish\n");
      IOException error = assertThrows(IOException.class, () -> repository.exactRef(MASTER + "x"));
      assertTrue(error.getMessage().contains("packed-refs:2"), error.getMessage());
    }
  }

  @Test
  void aTableThatIsCutOffUnderAReaderIsNamed() throws Exception {
    try (RefdbRepository repository = open(Lab.Format.REFTABLE)) {
      fill(repository, 3000);
      assertEquals(3001, repository.getRefDatabase().getRefs().size());
      Path table = largest(gitDir.resolve("reftable"));
      try (RandomAccessFile file = new RandomAccessFile(table.toFile(), "rw")) {
        file.setLength(file.length() / 2);
      }
      IOException error =
          assertThrows(
              IOException.class,
              () -> {
                // A cached ref may still be given.
                ((RefdbDatabase) repository.getRefDatabase()).view().flush();
                repository.getRefDatabase().getRefs();
              });
      assertTrue(error.getMessage().contains(table.getFileName().toString()), error.getMessage());
    }
  }

  @Test
  void tooLittleHeapIsAnOutOfMemoryErrorAfterWhichAllGoesOn() throws Exception {
    try (RefdbRepository repository = open(Lab.Format.REFTABLE)) {
      fill(repository, 20_000);
    }
    Process child =
        ChildJvm.start(SmallHeap.class, List.of("-Xmx24m", "-XX:+UseSerialGC"), List.of(gitDir.toString()));
    assertEquals("out of memory, then 20001 refs", ChildJvm.lastLine(child));
    assertEquals(0, child.waitFor());
  }

  /** Asks for more at once than its heap holds, in a JVM of its own. */
  static final class SmallHeap {
    private SmallHeap() {}

    public static void main(String[] args) throws Exception {
      try (RefdbRepository repository = Lab.open(Path.of(args[0]))) {
        RefDatabase refs = repository.getRefDatabase();
        List<byte[]> ballast = new ArrayList<>();
        String outcome = "enough memory";
        String[] names = new String[20_000];
        for (int i = 0; i < names.length; i++) {
          names[i] = name(i);
        }
        try {
          while (true) {
            ballast.add(new byte[256 << 10]);
            refs.exactRef(names);
          }
        } catch (OutOfMemoryError e) {
          ballast.clear();
          outcome = "out of memory";
        }
        System.out.println(outcome + ", then " + refs.getRefs().size() + " refs");
      }
    }
  }

  private static String name(int i) {
    return String.format("refs/changes/%02d/%d/meta", i % 100, i);
  }

  private void fill(Repository repository, int count) throws IOException {
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    for (int i = 0; i < count; i++) {
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), objects.commits().get(i % 3), name(i)));
    }
    batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), objects.commits().get(0), "refs/heads/one"));
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    assertTrue(batch.getCommands().stream().allMatch(command -> command.getResult() == ReceiveCommand.Result.OK));
  }

  private static Path largest(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.max((a, b) -> Long.compare(a.toFile().length(), b.toFile().length())).orElseThrow();
    }
  }
}

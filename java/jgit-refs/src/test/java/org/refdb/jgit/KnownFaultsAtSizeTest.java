package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.NullProgressMonitor;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The known faults that take many refs or long names to show. Costs are measured in bytes read, written and allocated
 * instead of time.
 */
class KnownFaultsAtSizeTest {
  private static final int REFS = 45_000;

  @TempDir Path folder;
  private Path gitDir;
  private List<ObjectId> commits;

  /** Creates many refs, as C git writes them. */
  private void create(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), Lab.Format.FILES);
    commits = Lab.objects(gitDir, 3).commits();
    String lines =
        IntStream.range(0, REFS)
            .mapToObj(i -> commits.get(i % 3).name() + " " + name(i))
            .sorted(java.util.Comparator.comparing(line -> line.substring(line.indexOf(' '))))
            .collect(Collectors.joining("\n"));
    Files.writeString(
        gitDir.resolve("packed-refs"), "# pack-refs with: peeled fully-peeled sorted \n" + lines + "\n");
    if (format == Lab.Format.REFTABLE) {
      CGit.read(gitDir, "refs", "migrate", "--ref-format=reftable");
    }
  }

  private static String name(int i) {
    return "refs/changes/%02d/%d/meta".formatted(i % 100, 100_000 + i);
  }

  /** Returns the size in bytes of the file or files that hold all refs. */
  private long size() throws IOException {
    Path packed = gitDir.resolve("packed-refs");
    if (Files.exists(packed)) {
      return Files.size(packed);
    }
    long size = 0;
    try (Stream<Path> tables = Files.list(gitDir.resolve("reftable"))) {
      for (Path table : tables.toList()) {
        size += Files.size(table);
      }
    }
    return size;
  }

  /**
   * Returns the bytes that the system has counted for this thread's input ({@code rchar}) or output ({@code wchar}).
   */
  private static long io(String what) throws IOException {
    return Files.readAllLines(Path.of("/proc/thread-self/io")).stream()
        .filter(line -> line.startsWith(what + ": "))
        .mapToLong(line -> Long.parseLong(line.substring(what.length() + 2)))
        .findFirst().orElseThrow();
  }

  private static long allocated() {
    return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getCurrentThreadAllocatedBytes();
  }

  @ParameterizedTest
  @EnumSource
  void fault21DeepNamesNeedNoDeepStack(Lab.Format format) throws Exception {
    gitDir = Lab.create(folder.resolve("r.git"), format);
    commits = Lab.objects(gitDir, 1).commits();
    // A reftable holds no name longer than 2,008 bytes.
    String deep = "refs/heads" + "/a".repeat(format == Lab.Format.FILES ? 1500 : 990);
    AtomicReference<Throwable> failure = new AtomicReference<>();
    long stackBytes = 256 << 10;
    Thread thread =
        new Thread(
            null,
            () -> {
              try (RefdbRepository repository = Lab.open(gitDir)) {
                RefdbDatabaseTest.set(repository, deep, commits.get(0));
                assertNotNull(repository.exactRef(deep));
                repository.getRefDatabase().packRefs(
                    NullProgressMonitor.INSTANCE, new org.eclipse.jgit.api.PackRefsCommand(repository).setAll(true));
                assertEquals(
                    List.of(deep), repository.getRefDatabase().getRefs().stream().map(Ref::getName).toList());
                assertTrue(repository.getRefDatabase().isNameConflicting(deep + "/b"));
              } catch (Throwable e) {
                failure.set(e);
              }
            },
            "small stack",
            stackBytes);
    thread.start();
    thread.join();
    if (failure.get() != null) {
      throw new AssertionError(failure.get());
    }
  }

  @ParameterizedTest
  @EnumSource
  void fault22TheFirstQuestionDoesNotReadAllRefs(Lab.Format format) throws Exception {
    create(format);
    Lab.views();
    long size = size();
    long heap = allocated();
    long before = io("rchar");
    try (RefdbRepository repository = Lab.open(gitDir)) {
      assertEquals(commits.get(7 % 3), repository.exactRef(name(7)).getObjectId());
    }
    long read = io("rchar") - before;
    assertTrue(read < size / 4, "the first question reads " + read + " of " + size + " bytes");
    assertTrue(allocated() - heap < 2 << 20, "it allocates " + (allocated() - heap) + " bytes");
  }

  @ParameterizedTest
  @EnumSource
  void fault23ANewChangeRewritesNoTableAndNoMoreThanOneFileOfRefs(Lab.Format format) throws Exception {
    create(format);
    long size = size();
    try (RefdbRepository repository = Lab.open(gitDir)) {
      newChange(repository, 900_000); // loads the classes
      long heap = allocated();
      long read = io("rchar");
      long written = io("wchar");
      newChange(repository, 900_001);
      read = io("rchar") - read;
      written = io("wchar") - written;
      long limit = format == Lab.Format.FILES ? size + size / 10 : size / 10;
      assertTrue(
          read < limit && written < limit, "reads " + read + " and writes " + written + " of " + size + " bytes");
      assertTrue(allocated() - heap < 1 << 20, "it allocates " + (allocated() - heap) + " bytes");
      assertNotNull(repository.exactRef("refs/changes/01/900001/1"));
    }
  }

  private void newChange(RefdbRepository repository, int number) throws IOException {
    BatchRefUpdate batch = repository.getRefDatabase().newBatchUpdate();
    batch.setAtomic(true);
    for (String part : List.of("1", "meta")) {
      String name = "refs/changes/%02d/%d/%s".formatted(number % 100, number, part);
      batch.addCommand(new ReceiveCommand(ObjectId.zeroId(), commits.get(0), name));
    }
    try (RevWalk walk = new RevWalk(repository)) {
      batch.execute(walk, NullProgressMonitor.INSTANCE);
    }
    assertEquals(
        Set.of(ReceiveCommand.Result.OK),
        batch.getCommands().stream().map(ReceiveCommand::getResult).collect(Collectors.toSet()));
  }

  @ParameterizedTest
  @EnumSource
  void fault24EveryRefThatGitWroteIsFoundByItsName(Lab.Format format) throws Exception {
    create(format);
    try (RefdbRepository repository = Lab.open(gitDir)) {
      List<String> missing = new ArrayList<>();
      for (int i = 0; i < REFS; i += 5) { // a reader with the fault misses one in twenty here
        Ref ref = repository.exactRef(name(i));
        if (ref == null || !ref.getObjectId().equals(commits.get(i % 3))) {
          missing.add(name(i));
        }
      }
      assertEquals(List.of(), missing);
      assertEquals(REFS, repository.getRefDatabase().getRefsByPrefix("refs/changes/").size());
    }
  }

  @Test
  void everyFaultOfTheListHasATestOfItsName() {
    TreeSet<Integer> tested = new TreeSet<>();
    Pattern number = Pattern.compile("fault(\\d+)|And(\\d+)");
    for (Class<?> tests : List.of(KnownFaultsTest.class, KnownFaultsAtSizeTest.class)) {
      for (Method method : tests.getDeclaredMethods()) {
        Matcher found = number.matcher(method.getName());
        while (method.getName().startsWith("fault") && found.find()) {
          tested.add(Integer.parseInt(found.group(1) != null ? found.group(1) : found.group(2)));
        }
      }
    }
    assertEquals(IntStream.rangeClosed(1, 24).boxed().collect(Collectors.toCollection(TreeSet::new)), tested);
  }
}

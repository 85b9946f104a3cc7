package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Processes that do what ChronicleMap does with harmed files. */
class ChronicleProcessTest {
  private static final int SIZE = 1000;
  private static final Duration LONG = Duration.ofMinutes(30);

  @TempDir Path folder;

  private Path file() throws IOException {
    return Files.write(folder.resolve("strings_1.dat"), new byte[SIZE]);
  }

  private long entriesOf(Class<?> program, Path file, Duration silenceMax) throws Exception {
    Path reader = Files.createFile(folder.resolve("reader"));
    Path flags = Files.writeString(folder.resolve("flags"), "-Xmx64m");
    String classPath = System.getProperty("java.class.path");
    try (ChronicleProcess process = new ChronicleProcess(reader, flags, classPath, program.getName(), silenceMax)) {
      return process.forEach(file, (key, value, created) -> true);
    }
  }

  private static DataOutputStream output() {
    return new DataOutputStream(new FileOutputStream(FileDescriptor.out));
  }

  private static void show(DataOutputStream entries) throws IOException {
    show(entries, "k", "v");
  }

  private static void show(DataOutputStream entries, String key, String value) throws IOException {
    entries.writeInt(key.length());
    entries.writeBytes(key);
    entries.writeInt(value.length());
    entries.writeBytes(value);
    entries.writeLong(0);
  }

  /** Shows one entry without end. */
  public static final class Endless {
    private Endless() {}

    public static void main(String[] arguments) throws IOException {
      DataOutputStream entries = output();
      while (true) {
        show(entries);
      }
    }
  }

  /** Shows one entry without a byte without end. */
  public static final class EndlessEmpty {
    private EndlessEmpty() {}

    public static void main(String[] arguments) throws IOException {
      DataOutputStream entries = output();
      while (true) {
        show(entries, "", "");
      }
    }
  }

  /** Shows nothing, and does not end. */
  public static final class Silent {
    private Silent() {}

    public static void main(String[] arguments) throws InterruptedException {
      Thread.sleep(Long.MAX_VALUE);
    }
  }

  /** Makes its file larger. */
  public static final class Growing {
    private Growing() {}

    public static void main(String[] arguments) throws IOException {
      try (RandomAccessFile file = new RandomAccessFile(arguments[0], "rw")) {
        file.setLength(1L << 40);
      }
      DataOutputStream entries = output();
      show(entries);
      entries.writeInt(-1);
      entries.writeLong(1);
    }
  }

  /** Previously, an entry without a byte came for ever. */
  @ParameterizedTest
  @ValueSource(classes = {Endless.class, EndlessEmpty.class})
  @Timeout(100)
  void anEntryThatComesWithoutEndIsTold(Class<?> program) throws Exception {
    Path file = file();
    IOException told = assertThrows(IOException.class, () -> entriesOf(program, file, LONG));
    assertTrue(told.getMessage().contains("its entries are larger than it is"), told.getMessage());
  }

  @Test
  @Timeout(100)
  void aProcessThatGoesRoundInCirclesIsEndedAndTold() throws Exception {
    Path file = file();
    IOException told = assertThrows(IOException.class, () -> entriesOf(Silent.class, file, Duration.ofSeconds(2)));
    assertTrue(told.getMessage().contains("nothing came of it for 2 seconds"), told.getMessage());
    assertTrue(told.getMessage().contains(file.toString()), told.getMessage());
  }

  /** Regression: a dry run enlarged the file that it read until the disk was full. */
  @Test
  void aFileThatIsReadHasItsSizeAfterwards() throws Exception {
    Path file = file();
    assertEquals(1, entriesOf(Growing.class, file, LONG));
    assertEquals(SIZE, Files.size(file));
  }
}

package org.refdb.gerrit.chronicle;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.googlesource.gerrit.modules.cache.chroniclemap.Writer;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A real ChronicleMap's file, written and read by processes that know different classes. */
class MainTest {
  private static final int ENTRIES = 500;

  @TempDir Path folder;

  /** The exit status of a process, and what it wrote to the standard output and to standard error. */
  private record Output(int status, byte[] bytes, String said) {}

  private Output java(boolean knowsWriter, Class<?> program, String... arguments) throws Exception {
    String classPath =
        Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(part -> knowsWriter || !part.endsWith("test-classes"))
            .collect(Collectors.joining(File.pathSeparator));
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("@" + Path.of(Main.class.getResource("jvm.args").toURI()));
    command.addAll(List.of("-cp", classPath, program.getName()));
    command.addAll(List.of(arguments));
    File output = folder.resolve("output").toFile();
    File said = folder.resolve("said").toFile();
    Process process = new ProcessBuilder(command).redirectOutput(output).redirectError(said).start();
    int status = process.waitFor();
    return new Output(status, Files.readAllBytes(output.toPath()), Files.readString(said.toPath()));
  }

  private Path write() throws Exception {
    Path file = folder.resolve("strings_1.dat");
    Output written = java(true, Writer.class, file.toString(), String.valueOf(ENTRIES));
    assertEquals(0, written.status, written.said);
    assertTrue(new String(Files.readAllBytes(file), UTF_8).contains("OneSerializer INSTANCE"), "not the module's header");
    return file;
  }

  @Test
  void everyEntryComesAsBytesWithItsTime() throws Exception {
    Path file = write();
    byte[] before = Files.readAllBytes(file);
    Output read = java(false, Main.class, file.toString());
    assertEquals(0, read.status, read.said);
    Set<Integer> seen = new HashSet<>();
    DataInputStream entries = new DataInputStream(new ByteArrayInputStream(read.bytes));
    for (int length = entries.readInt(); length != -1; length = entries.readInt()) {
      String key = new String(entries.readNBytes(length), UTF_8);
      int number = Integer.parseInt(key.substring("kéy ".length()));
      assertEquals(Writer.value(number), new String(entries.readNBytes(entries.readInt()), UTF_8));
      assertEquals(1_700_000_000_000L + number, entries.readLong());
      assertTrue(seen.add(number), key);
    }
    assertEquals(ENTRIES, entries.readLong());
    assertEquals(ENTRIES, seen.size());
    assertArrayEquals(before, Files.readAllBytes(file), "reading changed the file");
  }

  @Test
  void whatIsNoFileOfItsIsAnErrorAndNotMade() throws Exception {
    Path absent = folder.resolve("absent_1.dat");
    Output read = java(false, Main.class, absent.toString());
    assertNotEquals(0, read.status);
    assertTrue(read.said.contains("is no file of ChronicleMap's"), read.said);
    assertFalse(Files.exists(absent));
    Path harmed = write();
    byte[] bytes = Files.readAllBytes(harmed);
    bytes[100] ^= 1; // in the header, which has a checksum
    Files.write(harmed, bytes);
    assertNotEquals(0, java(false, Main.class, harmed.toString()).status);
  }

  @Test
  void aHarmedEntryIsNoEntry() throws IOException, Exception {
    Path file = write();
    byte[] bytes = Files.readAllBytes(file);
    byte[] wanted = "value 7 ".getBytes(UTF_8);
    for (int at = 0; at < bytes.length - wanted.length; at++) {
      if (java.util.Arrays.equals(bytes, at, at + wanted.length, wanted, 0, wanted.length)) {
        bytes[at] ^= 1;
      }
    }
    Files.write(file, bytes);
    Output read = java(false, Main.class, file.toString());
    assertFalse(
        read.status == 0 && new String(read.bytes, UTF_8).contains(new String(new byte[] {(byte) ('v' ^ 1)}, UTF_8) + "alue 7 "),
        "a harmed value was given out");
    assertTrue(read.status != 0 || read.said.contains("1 damaged entries are left out"), read.said);
  }
}

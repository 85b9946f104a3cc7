package org.refdb.gerrit.install;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import org.refdb.gerrit.cache.chronicle.EntryReader;

/**
 * Reads files of cache-chroniclemap's by ChronicleMap, which the administrator names, in a process of its own: ChronicleMap
 * needs flags of the JVM, a JDK's compiler, and trusts what it maps into memory.
 */
final class ChronicleProcess implements EntryReader, AutoCloseable {
  private static final String READER = "/import/chronicle-reader.jar";
  private static final String MAIN = "org.refdb.gerrit.chronicle.Main";
  private static final int END = -1;
  private static final int ARRAY_BYTES_MAX = 1 << 30;

  /** What ChronicleMap's documentation asks for since Java 17. */
  private static final List<String> JVM_FLAGS =
      List.of(
          "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
          "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
          "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
          "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
          "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
          "--add-opens=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
          "--add-opens=java.base/java.lang=ALL-UNNAMED",
          "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
          "--add-opens=java.base/java.io=ALL-UNNAMED",
          "--add-opens=java.base/java.util=ALL-UNNAMED");

  private final Path reader;
  private final String classPath;

  private ChronicleProcess(Path reader, String classPath) {
    this.reader = reader;
    this.classPath = classPath;
  }

  /**
   * With ChronicleMap's jars of a folder.
   *
   * @throws InstallException if there are none
   */
  static ChronicleProcess of(Path jars) throws IOException, InstallException {
    List<String> all = new ArrayList<>();
    try (DirectoryStream<Path> found = Files.newDirectoryStream(jars, "*.jar")) {
      found.forEach(jar -> all.add(jar.toString()));
    }
    if (all.stream().noneMatch(jar -> jar.contains("chronicle"))) {
      throw new InstallException(jars + " has no jar of ChronicleMap's");
    }
    Path reader = Files.createTempFile("refdb-chronicle-reader", ".jar");
    try (InputStream content = ChronicleProcess.class.getResourceAsStream(READER)) {
      if (content == null) {
        throw new InstallException("this jar is damaged: it has no " + READER);
      }
      Files.copy(content, reader, StandardCopyOption.REPLACE_EXISTING);
    }
    all.addFirst(reader.toString()); // its classes come before those of the module, which may be among the jars
    return new ChronicleProcess(reader, String.join(File.pathSeparator, all));
  }

  @Override
  public long forEach(Path file, Sink sink) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(JVM_FLAGS);
    command.addAll(List.of("-cp", classPath, MAIN, file.toAbsolutePath().toString()));
    Path said = Files.createTempFile("refdb-chronicle-reader", ".log");
    try {
      Process process = new ProcessBuilder(command).redirectError(said.toFile()).start();
      try (DataInputStream entries = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16))) {
        return read(entries, sink);
      } catch (EOFException e) {
        throw new IOException("cannot read " + file + ": " + reason(said), e);
      } finally {
        process.destroyForcibly();
      }
    } finally {
      Files.delete(said);
    }
  }

  private static long read(DataInputStream entries, Sink sink) throws IOException {
    long seen = 0;
    for (int length = entries.readInt(); length != END; length = entries.readInt()) {
      byte[] key = array(entries, length);
      byte[] value = array(entries, entries.readInt());
      if (!sink.take(key, value, entries.readLong())) {
        return seen;
      }
      seen++;
    }
    if (entries.readLong() != seen) {
      throw new EOFException();
    }
    return seen;
  }

  private static byte[] array(DataInputStream entries, int length) throws IOException {
    if (length < 0 || length > ARRAY_BYTES_MAX) {
      throw new EOFException();
    }
    byte[] bytes = entries.readNBytes(length);
    if (bytes.length < length) {
      throw new EOFException();
    }
    return bytes;
  }

  /** The first line of an error among warnings. */
  private static String reason(Path said) throws IOException {
    List<String> lines = Files.readAllLines(said, java.nio.charset.StandardCharsets.ISO_8859_1);
    return lines.stream()
        .filter(line -> line.contains("Exception") || line.contains("Error") || line.contains("Unrecognized option"))
        .findFirst()
        .orElse("the reading process ended; a JDK of Java 21 or newer is needed");
  }

  @Override
  public void close() throws IOException {
    Files.delete(reader);
  }
}

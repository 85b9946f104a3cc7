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
import java.util.jar.JarFile;
import java.util.zip.ZipEntry;
import org.refdb.gerrit.cache.chronicle.EntryReader;

/**
 * Reads files of cache-chroniclemap's by ChronicleMap, which the administrator names, in a process of its own.
 * ChronicleMap needs flags of the JVM and a JDK's compiler, and trusts the files it maps into memory.
 */
final class ChronicleProcess implements EntryReader, AutoCloseable {
  private static final String READER = "/import/chronicle-reader.jar";
  private static final String MAIN = "org.refdb.gerrit.chronicle.Main";
  private static final int END = -1;
  private static final int ARRAY_BYTES_MAX = 1 << 30;

  /** The JVM's flags that ChronicleMap needs, in the reader's jar. */
  private static final String FLAGS = "org/refdb/gerrit/chronicle/jvm.args";

  private final Path reader;
  private final Path flags;
  private final String classPath;

  private ChronicleProcess(Path reader, Path flags, String classPath) {
    this.reader = reader;
    this.flags = flags;
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
      copy(content, READER, reader);
    }
    Path flags = Files.createTempFile("refdb-chronicle-reader", ".args");
    try (JarFile jar = new JarFile(reader.toFile())) {
      ZipEntry entry = jar.getEntry(FLAGS);
      copy(entry == null ? null : jar.getInputStream(entry), FLAGS, flags);
    }
    all.addFirst(reader.toString()); // its classes come before those of the module, which may be among the jars
    return new ChronicleProcess(reader, flags, String.join(File.pathSeparator, all));
  }

  private static void copy(InputStream content, String name, Path target) throws IOException, InstallException {
    if (content == null) {
      throw new InstallException("this jar is damaged: it has no " + name);
    }
    Files.copy(content, target, StandardCopyOption.REPLACE_EXISTING);
  }

  @Override
  public long forEach(Path file, Sink sink) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("@" + flags);
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
    Files.delete(flags);
  }
}

package org.refdb.gerrit.install;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import org.refdb.gerrit.cache.chronicle.EntryReader;

/**
 * Reads files of cache-chroniclemap with a ChronicleMap that the administrator names, in a separate process, because
 * ChronicleMap needs flags of the JVM and the compiler of a JDK, and trusts the files that it maps into memory.
 */
final class ChronicleProcess implements EntryReader, AutoCloseable {
  private static final String READER = "/import/chronicle-reader.jar";
  private static final String MAIN = "org.refdb.gerrit.chronicle.Main";
  private static final int END = -1;

  /** The end of the line in which the reading program says how many damaged entries it has left out. */
  private static final String LEFT_OUT = " damaged entries are left out";

  private static final int ARRAY_BYTES_MAX = 1 << 30;

  /** The JVM flags that ChronicleMap needs; a resource of the reader's jar. */
  private static final String FLAGS = "org/refdb/gerrit/chronicle/jvm.args";

  /** How long a process may return no entry before it is taken for a hanging one. A corrupt file can make it hang. */
  private static final Duration SILENCE_MAX = Duration.ofMinutes(5);

  private final Path reader;
  private final Path flags;
  private final String classPath;
  private final String main;
  private final Duration silenceMax;

  /** The counts of damaged entries that were printed. A file is read twice: to count its entries, and to copy them. */
  private final Set<String> shown = new HashSet<>();

  /**
   * Creates a reader that runs the given main class. Outside tests only {@link #of} calls this.
   *
   * @param reader a temporary file, deleted at the end
   * @param flags a temporary file of arguments of the JVM, deleted at the end
   * @param main main class of the program
   */
  ChronicleProcess(Path reader, Path flags, String classPath, String main, Duration silenceMax) {
    this.reader = reader;
    this.flags = flags;
    this.classPath = classPath;
    this.main = main;
    this.silenceMax = silenceMax;
  }

  /**
   * Returns a reader that runs with the ChronicleMap jars in a folder.
   *
   * @throws InstallException if the folder contains none, or this jar is damaged
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
    all.addFirst(reader.toString()); // first, because cache-chroniclemap's own jar may be among the others
    return new ChronicleProcess(reader, flags, String.join(File.pathSeparator, all), MAIN, SILENCE_MAX);
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
    command.addAll(List.of("-cp", classPath, main, file.toAbsolutePath().toString()));
    long size = Files.size(file);
    Path said = Files.createTempFile("refdb-chronicle-reader", ".log");
    try {
      Process process = new ProcessBuilder(command).redirectError(said.toFile()).start();
      try (Watch watch = new Watch(process, silenceMax);
          DataInputStream entries = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16))) {
        try {
          long count = read(entries, sink, size, watch);
          lines(said).filter(line -> line.endsWith(LEFT_OUT) && shown.add(line)).forEach(System.err::println);
          return count;
        } catch (EOFException e) {
          String harm = watch.hasEnded() ? watch.reason() : e.getMessage();
          throw new IOException("cannot read " + file + ": " + (harm == null ? reason(said) : harm), e);
        }
      } finally {
        end(process);
        cutTo(file, size);
      }
    } finally {
      Files.delete(said);
    }
  }

  private static void end(Process process) throws InterruptedIOException {
    try {
      process.destroyForcibly().waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException();
    }
  }

  /**
   * Cuts a file back to its former length, because ChronicleMap extends a file to the length in the file's header
   * before it checks anything.
   */
  private static void cutTo(Path file, long size) throws IOException {
    if (Files.size(file) > size) {
      try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
        channel.truncate(size);
      }
    }
  }

  /**
   * Passes the entries to the sink until it returns false, and returns how many it took. Fails if the entries, of one
   * byte besides key and value at least, exceed the file's size, because a corrupt file can repeat one entry for ever.
   */
  private static long read(DataInputStream entries, Sink sink, long size, Watch watch) throws IOException {
    long seen = 0;
    long left = size;
    for (int length = entries.readInt(); length != END; length = entries.readInt()) {
      byte[] key = array(entries, length, left);
      left -= key.length;
      byte[] value = array(entries, entries.readInt(), left);
      left -= value.length + 1L;
      if (!sink.take(key, value, entries.readLong())) {
        return seen;
      }
      watch.hasShown();
      seen++;
    }
    if (entries.readLong() != seen) {
      throw new EOFException();
    }
    return seen;
  }

  private static byte[] array(DataInputStream entries, int length, long left) throws IOException {
    if (length < 0 || length > ARRAY_BYTES_MAX) {
      throw new EOFException();
    }
    if (length > left) {
      throw new EOFException("it is harmed, since its entries are larger than it is");
    }
    byte[] bytes = entries.readNBytes(length);
    if (bytes.length < length) {
      throw new EOFException();
    }
    return bytes;
  }

  /** Returns the first line that reports an error, or a guess if there is none. */
  private static String reason(Path said) throws IOException {
    return lines(said)
        .filter(line -> line.contains("Exception") || line.contains("Error") || line.contains("Unrecognized option"))
        .findFirst()
        .orElse("the reading process ended; a JDK of Java 21 or newer is needed");
  }

  private static Stream<String> lines(Path said) throws IOException {
    return Files.readAllLines(said, StandardCharsets.ISO_8859_1).stream();
  }

  /** Ends a process that returns no entry for too long. */
  private static final class Watch implements AutoCloseable {
    private final Process process;
    private final Duration silenceMax;
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor(Watch::thread);
    private volatile long shownAt = System.nanoTime();
    private volatile boolean ended;

    Watch(Process process, Duration silenceMax) {
      this.process = process;
      this.silenceMax = silenceMax;
      long period = silenceMax.toNanos() / 10;
      clock.scheduleWithFixedDelay(this::look, period, period, TimeUnit.NANOSECONDS);
    }

    private static Thread thread(Runnable look) {
      Thread thread = new Thread(look, "refdb-chronicle-watch");
      thread.setDaemon(true);
      return thread;
    }

    private void look() {
      if (System.nanoTime() - shownAt > silenceMax.toNanos()) {
        ended = true;
        process.toHandle().destroyForcibly(); // its output stays open here, so that the reader gets to the end
      }
    }

    void hasShown() {
      shownAt = System.nanoTime();
    }

    boolean hasEnded() {
      return ended;
    }

    String reason() {
      return "nothing came of it for " + silenceMax.toSeconds() + " seconds; it may be harmed";
    }

    @Override
    public void close() {
      clock.shutdownNow();
    }
  }

  @Override
  public void close() throws IOException {
    Files.delete(reader);
    Files.delete(flags);
  }
}

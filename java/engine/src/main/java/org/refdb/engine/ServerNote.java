package org.refdb.engine;

import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;
import java.util.EnumMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;

/**
 * A note that a server writes when it starts: whether one half of refdb is in use and, if not, why. The health check
 * of the server reads the note from memory, and the {@code status} of the installer reads it from a file in the folder
 * {@code data} of the site.
 *
 * @param inUse whether refdb is in use; if not, Gerrit uses its own implementation
 * @param text the reason why refdb is not in use; empty if it is
 * @param version the version of refdb
 * @param pid the process id of the server
 */
public record ServerNote(boolean inUse, String text, String version, long pid) {
  /** A part of a server that refdb can serve. */
  public enum Half {
    /** The ref database. */
    REFS("refs"),
    /** The persistent caches. */
    CACHES("caches");

    private final String word;

    Half(String word) {
      this.word = word;
    }

    /** Returns the name in files and messages. */
    public String word() {
      return word;
    }
  }

  private static final Map<Half, ServerNote> OWN = new EnumMap<>(Half.class);

  /**
   * Writes the note.
   *
   * @throws IOException if the file cannot be written; {@link #own} returns the note nevertheless
   */
  public static void write(Path site, Half half, boolean inUse, String text) throws IOException {
    ProcessHandle process = ProcessHandle.current();
    ServerNote note = new ServerNote(inUse, text, NativeLibrary.version(), process.pid());
    synchronized (OWN) {
      OWN.put(half, note);
    }
    Properties properties = new Properties();
    properties.setProperty("inUse", String.valueOf(inUse));
    properties.setProperty("text", text);
    properties.setProperty("version", note.version);
    properties.setProperty("pid", String.valueOf(note.pid));
    properties.setProperty("started", started(process));
    StringWriter content = new StringWriter();
    properties.store(content, null);
    Path file = file(site, half);
    Files.createDirectories(file.getParent());
    Path temporary = file.resolveSibling(file.getFileName() + ".new");
    Files.writeString(temporary, content.toString());
    Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
  }

  /** Returns the note of this process; empty if it has written none. */
  public static Optional<ServerNote> own(Half half) {
    synchronized (OWN) {
      return Optional.ofNullable(OWN.get(half));
    }
  }

  /**
   * Returns the note of the server that runs on a site; empty if no server that has written one is running.
   *
   * @throws IOException if there is a note that cannot be read
   */
  public static Optional<ServerNote> running(Path site, Half half) throws IOException {
    Properties properties = new Properties();
    try {
      properties.load(new StringReader(Files.readString(file(site, half))));
      long pid = Long.parseLong(properties.getProperty("pid", ""));
      boolean isSame =
          ProcessHandle.of(pid)
              .filter(process -> started(process).equals(properties.getProperty("started")))
              .isPresent();
      return isSame
          ? Optional.of(
              new ServerNote(
                  Boolean.parseBoolean(properties.getProperty("inUse")),
                  properties.getProperty("text", ""),
                  properties.getProperty("version", ""),
                  pid))
          : Optional.empty();
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (IllegalArgumentException e) {
      throw new IOException(file(site, half) + " is no note of refdb's: " + e.getMessage(), e);
    }
  }

  /** Returns the start time of a process, which identifies it together with its number, because numbers are reused. */
  private static String started(ProcessHandle process) {
    return process.info().startInstant().map(Instant::toString).orElse("");
  }

  /** Returns the file of a note. It is not in the folder of logs, because Gerrit compresses unknown files there. */
  private static Path file(Path site, Half half) {
    return site.resolve("data/refdb-" + half.word() + ".status");
  }
}

package org.refdb.gerrit.global.etcd;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * Identifies a node and one run of it. The plugin and native mode of a site are a node each, and so is each run of an
 * offline program.
 *
 * @param name identifies the node; except for a program, it stays the same across starts
 * @param start identifies this run, which ends with the process or when the plugin is reloaded
 */
public record NodeName(String name, String start) {
  private static final String PROGRAM = "program-";

  /**
   * Reads the node's name from the file {@code node} in a folder of the site, or generates it if the file is missing or
   * blank. Processes that find no file at the same time get the same name if the file system has hard links.
   */
  public static NodeName in(Path folder) throws IOException {
    Path file = folder.resolve("node");
    boolean isThere = Files.exists(file);
    if (!isThere || Files.readString(file).isBlank()) {
      Files.createDirectories(folder);
      Path next = Files.createTempFile(folder, "node", ".new");
      try (FileChannel channel = FileChannel.open(next, StandardOpenOption.WRITE)) {
        channel.write(ByteBuffer.wrap((Generation.random().id() + "\n").getBytes(StandardCharsets.UTF_8)));
        channel.force(true); // so that a loss of power after the next step leaves no empty file
      }
      try {
        if (isThere) {
          Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
        } else {
          Files.createLink(file, next); // fails where a move would replace the name that another process has taken
        }
      } catch (FileAlreadyExistsException e) {
        // That process was faster.
      } catch (FileSystemException | UnsupportedOperationException e) {
        Files.move(next, file, StandardCopyOption.ATOMIC_MOVE); // this file system has no hard links
      } finally {
        Files.deleteIfExists(next);
      }
    }
    return of(Files.readString(file).strip());
  }

  public static NodeName of(String name) {
    if (!name.matches("[A-Za-z0-9_.-]{1,64}")) {
      throw new IllegalArgumentException("\"" + name + "\" is no name for a node: up to 64 of A-Z a-z 0-9 _ . and -");
    }
    return new NodeName(name, Generation.random().id());
  }

  /** Generates the name of a program, which runs beside the process that has the name of the node. */
  public static NodeName ofProgram() {
    return of(PROGRAM + Generation.random().id());
  }

  /** Returns whether no other process will have the name again. */
  public boolean isOfProgram() {
    return name.startsWith(PROGRAM);
  }

  /** Describes this process to people: {@link #start}, host and process id. */
  public String text() {
    String host;
    try {
      host = InetAddress.getLocalHost().getHostName();
    } catch (IOException e) {
      host = "?";
    }
    return start + ' ' + host + " process " + ProcessHandle.current().pid();
  }
}

package org.refdb.gerrit.install;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Set;

/**
 * Writes files that belong to another user, as root does in a Gerrit site. A replaced file keeps owner, group and mode;
 * a new one gets owner and group of its folder.
 */
final class OwnedFiles {
  private static final FileAttribute<Set<PosixFilePermission>> OURS_ALONE =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
  private static final FileAttribute<Set<PosixFilePermission>> OUR_FOLDER =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
  private static final SecureRandom RANDOM = new SecureRandom();

  private OwnedFiles() {}

  /** Replaces the content of a file atomically. A process that has the old file open keeps its content. */
  static void replace(Path target, InputStream content) throws IOException {
    Path fresh = write(target, content);
    try {
      Files.move(fresh, target, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      Files.deleteIfExists(fresh);
      throw e;
    }
  }

  /**
   * Replaces a file unless it has that content, because Gerrit reloads a plugin whose file changes, and its commands
   * are missing meanwhile. Returns what was done.
   */
  static String put(Path target, byte[] content) throws IOException {
    if (Files.isRegularFile(target) && Arrays.equals(Files.readAllBytes(target), content)) {
      return "left " + target + " as it is: it is the same";
    }
    replace(target, new ByteArrayInputStream(content));
    return "wrote " + target;
  }

  /**
   * Tries all steps of {@link #replace} except the last one, and undoes them. Does nothing if the folder does not
   * exist.
   *
   * @throws InstallException if the file cannot be replaced with the same owner and group
   */
  static void tryReplacing(Path target) throws InstallException {
    Path place = target;
    try {
      if (Files.isDirectory(target.getParent())) {
        place = Files.exists(target) ? target.toRealPath() : target;
        Files.delete(write(place, new ByteArrayInputStream(new byte[0])));
      }
    } catch (IOException e) {
      throw new InstallException(
          "cannot write " + place + " and keep its owner and group" + said(place) + ": " + e.getMessage()
              + "; run this as its owner or as root",
          e);
    }
  }

  private static String said(Path place) {
    try {
      return " (" + Ownership.of(Files.exists(place) ? place : place.getParent()) + ")";
    } catch (IOException e) {
      return "";
    }
  }

  /** Creates a folder and its missing parents. */
  static void makeFolder(Path folder) throws IOException {
    if (!Files.isDirectory(folder)) {
      makeFolder(folder.getParent());
      Files.createDirectory(folder, OUR_FOLDER);
      Ownership.of(folder.getParent()).giveTo(folder);
    }
  }

  /** Writes the temporary file that is to be renamed to {@code target}, and returns its path. */
  private static Path write(Path target, InputStream content) throws IOException {
    Path folder = target.getParent();
    Ownership wanted = Files.exists(target) ? Ownership.of(target) : Ownership.of(folder).ofFileInside();
    Path fresh = folder.resolve("." + target.getFileName() + "." + Long.toHexString(RANDOM.nextLong()) + ".refdb-new");
    // Only a file that did not exist is written, through its open handle, because a user with write access to this
    // folder could put a link there.
    try (FileChannel file =
            FileChannel.open(
                fresh,
                Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS),
                OURS_ALONE);
        OutputStream out = Channels.newOutputStream(file)) {
      content.transferTo(out);
      file.force(true);
      wanted.giveTo(fresh);
      return fresh;
    } catch (IOException e) {
      Files.deleteIfExists(fresh);
      throw e;
    }
  }
}
